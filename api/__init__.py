"""The HTTP service over the tuning engine."""
