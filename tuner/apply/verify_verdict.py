"""Verdict on whether a certificate still holds, from fresh blocks of both configurations. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from tuner.judge.special import stdtrit
from tuner.judge.words import at_least
from tuner.states import VerifyOutcome
from tuner.text import differ

#: Fewer blocks give no useful interval.
LEAST_BLOCKS = 3
_CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Verified:
    """Result of a verification. ``ratio``, ``lower``, ``upper``: time with the recommended
    configuration divided by time with the old one, and its two-sided interval at ``confidence``
    (Student's t over ``blocks`` fresh blocks). ``reason``: a sentence. ``caveat``: that neither
    configuration was in effect before, or that runs of the recommended one failed, which no
    measurement contains; "" if there is nothing of that kind.
    """

    outcome: VerifyOutcome
    ratio: float
    lower: float
    upper: float
    confidence: float
    blocks: int
    reason: str
    caveat: str = ""

    @property
    def can_be_judged(self) -> bool:
        """Whether the certificate is about the difference that was measured."""
        return self.outcome is not VerifyOutcome.CANNOT_BE_JUDGED


def verified(
    log_ratios: Sequence[float], certified: float, other_settings: Sequence[str] = ()
) -> Verified:
    """Judge differences of log scores (recommended minus old), one per block. ``certified``: the
    upper end of the certificate's interval, which is the least improvement that it claims.
    ``other_settings``: names of the settings in which the old configuration differs from the one
    that it was certified against.

    Cannot be judged: there are such settings, so the certificate is about another difference.
    Holds: shown to be faster than the old configuration. No longer holds: not shown to be faster,
    and shown to miss the certified improvement. Raises ValueError for fewer than ``LEAST_BLOCKS``
    blocks.
    """
    blocks = len(log_ratios)
    if blocks < LEAST_BLOCKS:
        raise ValueError(f"{blocks} blocks are too few")
    mean = fmean(log_ratios)
    t = float(stdtrit(blocks - 1, (1.0 + _CONFIDENCE) / 2.0))
    reach = t * stdev(log_ratios) / math.sqrt(blocks)
    ratio, lower, upper = (math.exp(x) for x in (mean, mean - reach, mean + reach))
    least = at_least(math.log(certified))
    if other_settings:
        outcome = VerifyOutcome.CANNOT_BE_JUDGED
        reason = (
            "The settings that were there before are not those it was certified against: "
            f"{differ(other_settings)}."
        )
    elif upper < 1.0:
        outcome = VerifyOutcome.HOLDS
        reason = "The whole interval shows a gain over what was there before."
        if lower > certified:
            reason += f" But it is less than what was certified: {least} faster."
    elif lower > min(1.0, certified):
        outcome = VerifyOutcome.NO_LONGER_HOLDS
        reason = f"What was certified, {least} faster, is outside the interval."
    else:
        outcome = VerifyOutcome.NOT_SETTLED
        reason = (
            f"The interval contains both no gain and what was certified, {least} faster: "
            "measure more blocks."
        )
    return Verified(outcome, ratio, lower, upper, _CONFIDENCE, blocks, reason)
