"""Whether a recommendation has what matters and nothing else, where the truth is known."""
