"""Tests of the client of a server."""
