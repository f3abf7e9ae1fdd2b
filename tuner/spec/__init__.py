"""The campaign file: its keys, and every check that needs nothing but the file."""
