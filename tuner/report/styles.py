"""Terminal styles of reports, and the safe rendering of external text."""

from __future__ import annotations

from rich.text import Text

from tuner.text import clean

FASTER, SLOWER, QUIET, STRONG, NAME = "green", "red", "dim", "bold", "cyan"
"""Styles of reports. Colour is never the only carrier of a meaning."""


def literal(text: str, style: str = "") -> Text:
    """Render external `text` literally: one line, no markup, no control characters."""
    return Text(clean(text), style=style)


def tone(lower: float, upper: float) -> str:
    """Return the style for an interval of ratios: faster, slower, or none if neither is shown."""
    return FASTER if upper < 1.0 else SLOWER if lower > 1.0 else ""
