"""Records of a campaign's state and results for display, during and after it; no rendering."""
