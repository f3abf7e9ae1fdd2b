"""Effects in words: log differences as percentages, intervals of them, numbers of blocks.

Owns their wording in judgements. Separate from these, so that code that only prints need not import
numpy. Percentages are symmetric in D: "x% faster" is exp(-D) - 1 (work done in the same time), "x%
slower" is exp(D) - 1, so that the margin ln(1 + delta) reads as delta in both directions.
"""

from __future__ import annotations

import math
from typing import Final

# Beyond this, "over 1000%" is more informative than a number.
_LARGEST_PERCENT: Final = 1000.0
_LARGEST: Final = math.log1p(_LARGEST_PERCENT / 100.0)


def percent(d: float) -> str:
    """Magnitude of a log difference as a percentage: .0488 -> "5.0%"."""
    size = abs(d)
    if size > _LARGEST:
        return f"over {_LARGEST_PERCENT:.0f}%"
    return f"{_number(size)}%"


def change(d: float) -> str:
    """A log difference in words: -.0488 -> "5.0% faster"."""
    return f"{percent(d)} {'faster' if d < 0.0 else 'slower'}"


def blocks(n: int) -> str:
    """ "1 block", "6 blocks"."""
    return f"{n} block" if n == 1 else f"{n} blocks"


def minutes_or_hours(seconds: float) -> str:
    """An expected time: "2 min", "1.4 h"."""
    return f"{seconds / 60.0:.0f} min" if seconds < 3570.0 else f"{seconds / 3600.0:.1f} h"


def probability(share: float) -> str:
    """A probability in percent: "80%"; never "100%", but ">99%"."""
    rounded = f"{100.0 * share:.0f}%"
    return ">99%" if rounded == "100%" else rounded


def at_least(d: float) -> str:
    """A lower bound: .0488 -> "at least 5.0%", also where ``percent`` says "over 1000%"."""
    return f"at least {percent(d).removeprefix('over ')}"


def interval(estimate: float, lower: float, upper: float, confidence: float) -> str:
    """For example "95% interval 3.0 to 9.1%"; takes bounds as log differences."""
    name = f"{100.0 * confidence:.3g}% interval"
    if math.isinf(lower) or math.isinf(upper):
        return f"{name} still unbounded"
    if upper <= 0.0 and estimate < 0.0:
        return f"{name} {_between(-upper, -lower)}"
    if lower >= 0.0:
        return f"{name} {_between(lower, upper)}"
    return f"{name} {change(upper)} to {change(lower)}"


def _between(low: float, high: float) -> str:
    """Magnitudes as a range: "3.0 to 9.1%", "3.0% to over 1000%", "over 1000%"."""
    if high <= _LARGEST:
        return f"{_number(low)} to {_number(high)}%"
    return percent(high) if low > _LARGEST else f"{percent(low)} to {percent(high)}"


def _number(size: float) -> str:
    percentage = 100.0 * math.expm1(size)
    # An effect of more than 100% is not known to a tenth of a percent.
    return f"{percentage:.1f}" if percentage < 99.95 else f"{percentage:.0f}"
