"""The error that a campaign promises. No imports: commands that only tell of it start quickly."""

from __future__ import annotations

#: The error of all certificates of a campaign together, one-sided.
ALPHA = 0.025
