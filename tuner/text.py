"""Words and numbers for people: percentages, durations, values, and untrusted text.

Percentages follow tuner.judge.words: "x% faster" is 1 / ratio - 1, "x% slower" is ratio - 1; ratio
is a time divided by that of the baseline.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from tuner.judge.words import change, percent
from tuner.model import Value

NOT_SET: Final = "not set"

#: Logs above this are those of no double.
_LARGEST_LOG: Final = 709.0


def clean(text: str) -> str:
    """Return `text` on one line, without control and other non-printable characters."""
    return "".join(c if c.isprintable() else " " for c in text)


def value_text(value: Value | None) -> str:
    """Return a parameter's value for people; None is a parameter that is left to the program."""
    if value is None:
        return NOT_SET
    if isinstance(value, bool):
        return "on" if value else "off"
    return clean(value) if isinstance(value, str) else str(value)


def log_ratio(ratio: float) -> float:
    """Return ln `ratio`, the log difference used in tuner.judge; -inf for 0."""
    return math.log(ratio) if ratio > 0.0 else -math.inf


def ratio_of(log: float) -> float:
    """Return exp `log`, the inverse of `log_ratio`; infinity where a double has no room for it."""
    return math.exp(log) if log < _LARGEST_LOG else math.inf


def percent_faster(ratio: float) -> float:
    """Return percent faster as a number, negative = slower; infinite for a ratio of 0 or
    infinity.
    """
    if ratio <= 0.0:
        return math.inf
    return 100.0 * (1.0 / ratio - 1.0 if ratio <= 1.0 else 1.0 - ratio)


def faster(ratio: float) -> str:
    """ "5.0% faster", "2.1% slower", "no change" where it rounds to that."""
    d = log_ratio(ratio)
    return "no change" if percent(d) == percent(0.0) else change(d)


def signed(ratio: float) -> str:
    """Return the same for a column with the heading "faster": "+5.0%", "-2.1%"."""
    d = log_ratio(ratio)
    size = percent(d)
    if size == percent(0.0):
        return size
    return f"{'+' if d < 0.0 else '-'}{size.replace('over ', '>')}"


def unbounded(lower: float, upper: float) -> bool:
    """Whether an interval of ratios has an uninformative end."""
    return lower <= 0.0 or math.isinf(upper)


def signed_interval(lower: float, upper: float) -> str:
    """Return an interval of ratios for a column with the heading "faster": "+3.0% to +9.1%"."""
    if unbounded(lower, upper):
        return "not yet bounded"
    return f"{signed(upper)} to {signed(lower)}"


def interval(lower: float, upper: float) -> str:
    """Return an interval of ratios: "3.0% to 9.1% faster", "1.0% slower to 4.0% faster"."""
    if unbounded(lower, upper):
        return "not yet bounded"
    low, high = log_ratio(lower), log_ratio(upper)
    if high <= 0.0:
        return f"{percent(high)} to {change(low)}"
    if low >= 0.0:
        return f"{percent(low)} to {change(high)}"
    return f"{change(high)} to {change(low)}"


def confidence_text(confidence: float) -> str:
    """ "95% interval"."""
    return f"{100.0 * confidence:.3g}% interval"


def counted(n: int, noun: str) -> str:
    """ "1 trial", "2 trials"."""
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def differ(names: Sequence[str]) -> str:
    """ "a differs", "a, b differ"."""
    return f"{', '.join(names)} {'differs' if len(names) == 1 else 'differ'}"


def duration(seconds: float) -> str:
    """Return seconds in the two largest units: "8.4 s", "3 min 20 s", "2 h 05 min", "3 d 4 h"."""
    if seconds < 9.95:
        return f"{max(0.0, seconds):.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    minutes = round(seconds / 60.0)
    if minutes < 24 * 60:
        return f"{minutes // 60} h {minutes % 60:02d} min"
    hours = round(seconds / 3600.0)
    return f"{hours // 24} d {hours % 24} h"


def moment(at: datetime) -> str:
    """Return a time to the second: "2026-03-01T12:00:05Z"."""
    return f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
