"""The error rate that a campaign guarantees. Imports nothing, so that commands that only print it
start quickly.
"""

from __future__ import annotations

#: One-sided family-wise error of all certificates of a campaign.
ALPHA = 0.025
