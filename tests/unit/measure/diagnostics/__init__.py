"""Tests of the diagnostics around an arm."""
