"""What it costs to reach hosts by SSH instead of entering their namespaces."""
