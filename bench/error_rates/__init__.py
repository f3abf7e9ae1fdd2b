"""The judge's error rates when there is nothing to find, under many kinds of noise."""
