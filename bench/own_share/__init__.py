"""Breakdown of fstune's own share of the wall time of stored campaigns."""
