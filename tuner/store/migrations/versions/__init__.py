"""The revisions, each from the one before."""
