"""Terminal styles of reports, and the safe rendering of external text."""

from __future__ import annotations

from collections.abc import Mapping

from rich.text import Text

from tuner.states import ACTIVE, CampaignState, TrialState
from tuner.text import clean

FASTER, SLOWER, QUIET, STRONG, NAME = "green", "red", "dim", "bold", "cyan"
"""Styles of reports. Colour is never the only carrier of a meaning."""

_STATE_STYLES: Mapping[str, str] = {
    CampaignState.RUNNING: STRONG,
    CampaignState.FINISHED: FASTER,
    CampaignState.FAILED: SLOWER,
    ACTIVE: STRONG,
    TrialState.FAILED: SLOWER,
    TrialState.PRUNED: QUIET,
}


def literal(text: str, style: str = "") -> Text:
    """Render external `text` literally: one line, no markup, no control characters."""
    return Text(clean(text), style=style)


def tone(lower: float, upper: float) -> str:
    """Return the style for an interval of ratios: faster, slower, or none if neither is shown."""
    return FASTER if upper < 1.0 else SLOWER if lower > 1.0 else ""


def state_text(state: str) -> Text:
    """Return the state of a campaign or a trial in its style."""
    return Text(state, style=_STATE_STYLES.get(state, ""))
