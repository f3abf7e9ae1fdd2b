"""How fast the workload engine itself is, beside other generators on a memory filesystem."""
