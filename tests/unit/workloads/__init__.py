"""Tests of the workload engine, which is run here on a local directory."""
