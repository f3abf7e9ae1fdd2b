"""Answers of campaigns in which every configuration that was tried failed."""

from __future__ import annotations

from typing import Final

from tuner.model import Recommendation

#: The beginning of the reason of such an answer.
NONE_RAN: Final = "no configuration could be run: "


def none_ran(answer: Recommendation) -> bool:
    """Whether every configuration that was tried failed, so that nothing was compared."""
    return answer.reason.startswith(NONE_RAN)
