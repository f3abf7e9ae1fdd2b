"""Whether recommendations change what matters and nothing else, where the truth is known."""
