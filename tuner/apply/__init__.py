"""Bringing a recommended configuration into force, putting it back, and measuring it once more."""
