"""Pure statistics: from paired log-time differences to verdicts, race decisions and certificates.

Owns the arithmetic of evidence and nothing else: no I/O, no clock, no randomness that is not seeded
by an argument. Every module takes numbers or frozen records and returns frozen records.
"""
