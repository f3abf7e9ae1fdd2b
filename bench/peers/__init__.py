"""Other ways to find settings, on the same surfaces and with the same testbed time."""
