"""The cost of reaching hosts over SSH instead of entering their namespaces."""
