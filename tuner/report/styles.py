"""The styles of reports in a terminal, and texts from outside in them."""

from __future__ import annotations

from rich.text import Text

from tuner.text import clean

FASTER, SLOWER, QUIET, STRONG, NAME = "green", "red", "dim", "bold", "cyan"
"""The styles of reports. No meaning rests on colour alone."""


def literal(text: str, style: str = "") -> Text:
    """`text` from outside as itself: one line, no markup, no control characters."""
    return Text(clean(text), style=style)


def tone(lower: float, upper: float) -> str:
    """The style for an interval of ratios: faster, slower, or neither shown."""
    return FASTER if upper < 1.0 else SLOWER if lower > 1.0 else ""
