"""Whether the gains of single settings lie in the intervals that an answer states."""
