"""Diagnostics around each arm: counters of programs and hosts while a workload ran.

Owns reading counters (``probe``), parsing those of the kernel (``process``, ``machine``: pure
functions of text; each service parses those of its own programs), differences between two readings
(``sample``), what the counters prove about a run (``proof``), and when they are read (``watch``).
Nothing here changes a host.
"""
