"""Diagnostics around each arm: what the programs and hosts counted while a workload ran.

Owns reading counters (``probe``), what each tool's output means (``rx``, ``xstat``, ``process``,
``machine``: pure functions of text), what changed between two moments (``sample``), what the
counters prove of a run (``proof``), and when they are read (``watch``). Nothing here changes a
host.
"""
