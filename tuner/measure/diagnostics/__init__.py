"""Diagnostics around each arm: what the programs and hosts counted while a workload ran.

Owns reading counters (``probe``), what the kernel's own mean (``process``, ``machine``: pure
functions of text; a service brings those of its programs), what changed between two moments
(``sample``), what the counters prove of a run (``proof``), and when they are read (``watch``).
Nothing here changes a host.
"""
