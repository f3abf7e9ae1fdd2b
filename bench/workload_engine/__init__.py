"""The workload engine's own speed, compared with other generators on a memory filesystem."""
