"""The cost of reaching hosts by SSH instead of entering their namespaces."""
