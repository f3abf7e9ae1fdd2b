"""Tests of tuner/services."""
