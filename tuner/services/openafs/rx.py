"""Statistics of Rx, OpenAFS's transport, from ``rxdebug HOST PORT -rxstats -noconns``. Pure."""

from __future__ import annotations

import re

_COUNTERS = {
    "calls_waited": r"^(\d+) calls have waited for a thread",
    "packets_received": r"packets read: data (\d+)",
    "packets_sent": r"packets sent: data (\d+)",
    "duplicates_received": r"other read counters: .*\bdup (\d+)",
    "resends": r"\bresends (\d+)",
    "busies_sent": r"packets sent: .*\bbusy (\d+)",
    "aborts_sent": r"packets sent: .*\babort (\d+)",
    "sends_failed": r"\bsendFailed (\d+)",
    "no_packets": r"\bnoPackets (\d+)",
    "no_buffers": r"\bnoBuffers (\d+)",
}
_GAUGES = {
    "calls_waiting": r"^(\d+) calls waiting for a thread",
    "idle_threads": r"^(\d+) threads? (?:is|are) idle",
}
_FAILURES = re.compile(
    r"alloc-failures\(rcv (\d{1,19})/(\d{1,19}),send (\d{1,19})/(\d{1,19}),ack (\d{1,19})\)"
)


def rx_counters(text: str) -> dict[str, float]:
    """Parse the Rx counters since the program started. Raises ValueError.

    Among them are calls that had to wait for a thread, data packets received and sent, resent
    packets, and failed packet allocations.
    """
    counters = _numbers(_COUNTERS, text)
    failures = _FAILURES.search(text)
    if failures is None:
        raise ValueError(f"rxdebug: no allocation failures in {text.strip()[:200]!r}")
    return {**counters, "allocation_failures": float(sum(map(int, failures.groups())))}


def rx_gauges(text: str) -> dict[str, float]:
    """Parse the current numbers of waiting calls and idle threads. Raises ValueError."""
    return _numbers(_GAUGES, text)


def _numbers(patterns: dict[str, str], text: str) -> dict[str, float]:
    numbers: dict[str, float] = {}
    for name, pattern in patterns.items():
        match = re.search(pattern, text, re.MULTILINE)
        if match is None:
            raise ValueError(f"rxdebug: no {name} in {text.strip()[:200]!r}")
        numbers[name] = float(match.group(1))
    return numbers
