"""The revisions, each based on the one before."""
