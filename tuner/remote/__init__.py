"""Campaigns of a server, asked for over HTTP. Nothing here reads or writes a database."""
