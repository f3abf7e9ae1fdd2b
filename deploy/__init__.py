"""What the tuner runs on: the private local cell, service units and examples."""
