"""Studies of what the project promises: each one command, its results committed beside it."""
