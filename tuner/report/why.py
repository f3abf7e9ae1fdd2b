"""Sentences on what changed with the settings: why a configuration may be faster or slower.

Owns the criterion for a change that is large and certain enough to report. Arms are compared within
their block. The interval of the median ratio comes from order statistics, which is valid for any
noise distribution; a change is reported if the whole interval lies beyond a factor of 1.2.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

from rich.console import RenderableType

from tuner.model import BASELINE, Answer, Block, Recommendation
from tuner.report.answer import section
from tuner.report.diagnostics import (
    Diagnostics,
    diagnostics_by_host,
    known_diagnostics,
    total,
    unit_text,
)
from tuner.report.drawing import paragraph
from tuner.services.diagnostic import BetterWhen, Diagnostic, Unit
from tuner.states import BlockState
from tuner.text import counted as number_of

#: Upper limit of the probability that the interval of a median misses the median.
_ERROR = 0.02
#: Smallest number of pairs for which that interval is finite.
ENOUGH = 7
#: Beginning of the sentence that reports fewer pairs.
_TOO_FEW = "Too few blocks measured both to tell"
#: Smallest change that is reported, as a log ratio.
_LARGE = math.log(1.2)
#: Values below this in both arms are negligible.
_LEAST = {Unit.COUNT: 10.0, Unit.BYTES: 1e6, Unit.SECONDS: 0.05}


def reasons(blocks: Sequence[Block], trial: int) -> list[str]:
    """Return a sentence for each large, certain change in the diagnostics from the baseline.

    Uses the complete blocks that measured both the baseline and the trial. If they are too few for
    any change to be certain, the only sentence says so.
    """
    pairs = [both for block in blocks if (both := _both(block, trial)) is not None]
    if len(pairs) < ENOUGH:
        return [f"{_TOO_FEW}: {len(pairs)} of at least {ENOUGH}."]
    names = {name for both in pairs for arm in both for name in arm}
    sentences = (_reason(one, pairs) for one in (*known_diagnostics(), *diagnostics_by_host(names)))
    return [sentence for sentence in sentences if sentence]


def why_sections(
    recommendation: Recommendation | None, sentences: Sequence[str]
) -> list[RenderableType]:
    """Render what changed in the diagnostics with the recommended settings.

    Nothing if nothing is recommended, or if too few blocks were measured to tell.
    """
    changes = [sentence for sentence in sentences if not sentence.startswith(_TOO_FEW)]
    if recommendation is None or recommendation.answer is not Answer.RECOMMENDED or not changes:
        return []
    return [section("Why: what changed", *map(paragraph, changes))]


def _both(block: Block, trial: int) -> tuple[Diagnostics, Diagnostics] | None:
    arms = {m.trial: m.diagnostics for m in block.measurements}
    if block.state is not BlockState.COMPLETE or not {BASELINE, trial} <= arms.keys():
        return None
    return arms[BASELINE], arms[trial]


def _reason(one: Diagnostic, pairs: Sequence[tuple[Diagnostics, Diagnostics]]) -> str:
    totals = [
        (before, after)
        for base, own in pairs
        if (before := total(base, one.ending)) is not None
        and (after := total(own, one.ending)) is not None
    ]
    least = _LEAST[one.unit]
    was, now = (
        median(of) if of else 0.0 for of in ([b for b, _ in totals], [a for _, a in totals])
    )
    if max(was, now) < least:
        return ""
    # Raise negligible values to a small positive one: the ratio with 0 is undefined.
    small = least / 10.0
    ratios = [math.log(max(after, small) / max(before, small)) for before, after in totals]
    low, high = median_interval(ratios)
    if low <= _LARGE and high >= -_LARGE:
        return ""
    subject = f"{one.name[0].upper()}{one.name[1:]}"
    numbers = f"{unit_text(was, one.unit)} with the baseline, {unit_text(now, one.unit)} with it"
    good = "" if one.good is BetterWhen.EITHER else f" {one.good.capitalize()} is better."
    if one.good is not BetterWhen.EITHER and one.unit is not Unit.COUNT:
        good = " Less is better." if one.good is BetterWhen.FEWER else " More is better."
    return (
        f"{subject}: {numbers} ({_words(low, high)} in {number_of(len(totals), 'block')}). "
        f"{one.meaning}{good}"
    )


def median_interval(values: Sequence[float]) -> tuple[float, float]:
    """Return bounds of the population median at 98% confidence or more; infinite for too few."""
    ordered, n = sorted(values), len(values)
    outside, index = 0.0, 0
    while index < n // 2:
        more = outside + 2.0 * math.comb(n, index) / 2.0**n
        if more > _ERROR:
            break
        outside, index = more, index + 1
    return (ordered[index - 1], ordered[n - index]) if index else (-math.inf, math.inf)


def _words(low: float, high: float) -> str:
    if high < 0.0:
        least, most = 100.0 * (1.0 - math.exp(high)), 100.0 * (1.0 - math.exp(low))
        return f"{least:.0f}% to {most:.0f}% less"
    if high < math.log(2.0):
        return f"{100.0 * math.expm1(low):.0f}% to {100.0 * math.expm1(high):.0f}% more"
    return f"{math.exp(low):.1f} to {math.exp(high):.1f} times as much"
