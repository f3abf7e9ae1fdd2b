"""Describe the state of a running campaign in a few words."""

from __future__ import annotations

from collections.abc import Sequence

from tuner.model import BlockKind
from tuner.records.standing import Standing
from tuner.text import counted, duration, faster, interval


def where(standing: Standing) -> str:
    """Return the phase and block: "search, block 7", "certification, block 3"."""
    phases = {BlockKind.PILOT: "pilot", BlockKind.CERTIFY: "certification"}
    phase = phases.get(standing.kind, "search")
    return f"{phase}, block {standing.block}"


def outlook(standing: Standing) -> str:
    """Return what has been certified and what looks best; "" while there is neither.

    For example "trial 4 is certified; looks best, expected 8.1% faster (2.0% to 14.1% faster):
    threads=64". The settings come last, as they may be too many for the line of a terminal.
    """
    parts = []
    if standing.certified is not None:
        parts.append(f"trial {standing.certified} is certified")
    if (best := standing.best) is not None:
        e = best.estimate
        expected = f"{faster(e.ratio)} ({interval(e.lower, e.upper)})"
        parts.append(f"looks best, expected {expected}: {best.changes}")
    return "; ".join(parts)


def how_long(elapsed_s: float, left_s: float | None) -> str:
    """Return the elapsed and remaining time: "12 min 05 s elapsed, about 40 min 00 s left"."""
    if left_s is None:
        rest = ""
    else:
        rest = f", about {duration(left_s)} left" if left_s >= 1.0 else ", nearly done"
    return f"{duration(elapsed_s)} elapsed{rest}"


def how_many(standing: Standing) -> str:
    """Return the number of measurements: "12/96 measurements", "12 of about 96 measurements"."""
    of = ""
    if standing.budget is not None:
        of = f" of about {standing.budget}" if standing.estimated else f"/{standing.budget}"
    return f"{standing.measurements}{of} measurements"


def guided_by(trials: int, campaigns: Sequence[str], why: str = "") -> str:
    """Return how many trials of earlier campaigns guide the search. ``why``: why none does."""
    reason = f": {why}" if why else ""
    return f"the search is guided by {counted(trials, 'trial')} of {', '.join(campaigns)}{reason}"
