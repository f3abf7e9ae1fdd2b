"""Tests of rules for the whole repository."""
