"""The error rates that a campaign guarantees, and the most blocks that its tests are planned for.

``tuner.plan.attempts`` divides the error among attempts. Imports nothing, so that commands that
only print these numbers start quickly.
"""

from __future__ import annotations

#: One-sided family-wise error of all certificates of a campaign.
ALPHA = 0.025
#: Share of it that the first attempt at a certificate has; see ``tuner.plan.attempts``.
FIRST_SHARE = 0.6
#: One-sided error at which each component is shown to meet its floor if floors are ``bounded``: the
#: probability, in each attempt, that a component passes although its true loss is larger.
FLOOR_ALPHA = 0.2
#: Number of blocks below which nothing can be said about the shape of differences.
FEW_BLOCKS = 6
#: Maximum number of blocks of a certification or a pilot.
MOST_BLOCKS = 500


def planned_blocks(blocks: int) -> int:
    """The blocks that tests are planned for: files of earlier releases may allow more."""
    return min(MOST_BLOCKS, blocks)


def check_alpha(alpha: float) -> None:
    """Raise ValueError unless 0 < alpha < 1."""
    if not 0.0 < alpha < 1.0:
        raise ValueError(f"alpha must be between 0 and 1, got {alpha}")
