"""Measurements: running the workload on a testbed's clients and parsing its reports."""
