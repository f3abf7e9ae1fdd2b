"""Studies of the project's claims: each is one command, with its results committed next to it."""
