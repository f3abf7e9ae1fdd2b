"""Tests of simulated campaigns."""
