"""Measurements: runs the workload on the clients of a testbed and turns its report into records."""
