"""The load that the service can bear: requests at a steady rate, and many watchers."""
