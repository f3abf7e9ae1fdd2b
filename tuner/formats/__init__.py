"""A configuration in the files and commands of administrators: a format each, by name."""
