"""The error rate that a campaign guarantees, the check of error rates, and the size of a
certification. Imports nothing, so that commands that only print them start quickly.
"""

from __future__ import annotations

#: One-sided family-wise error of all certificates of a campaign.
ALPHA = 0.025
#: Maximum number of blocks of a certification.
MOST_BLOCKS = 500


def check_alpha(alpha: float) -> None:
    """Raise ValueError unless 0 < alpha < 1."""
    if not 0.0 < alpha < 1.0:
        raise ValueError(f"alpha must be between 0 and 1, got {alpha}")
