"""Other ways to find settings, on the same surfaces and for the same hours on the testbed."""
