"""Verdicts: conclusions about a candidate from paired differences, in numbers and in a sentence.

Owns the outcomes, their precedence and the sentence that reports one. Differences are log time
ratios, candidate over reference: positive = slower.

What to expect (one-sided .025, at most 30 blocks, looking after each; blocks for 80% power): an
effect of 1, 1.5, 2 and 3 times sd(D) takes 16, 10, 7 and 5 blocks; one of half sd(D) is detected in
half of the cases. So with sd(D) of 5%, 7 blocks show a difference of 10%, 16 blocks one of 5%.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np

from tuner.judge.confidence import Interval, bounds
from tuner.judge.evalue import MIN_PAIRS, Floats, Moments, e_from_log, moments
from tuner.judge.score import margin
from tuner.judge.thresholds import threshold
from tuner.judge.words import blocks, change, percent
from tuner.judge.words import interval as interval_text

METHOD: Final = "mixture-t e-value"


class Outcome(StrEnum):
    """Outcome of the comparison of a candidate with its reference."""

    BETTER = "better"
    WORSE = "worse"
    WORSE_BY_DELTA = "worse_by_delta"
    EQUIVALENT = "equivalent"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class Verdict:
    """An outcome with the numbers it rests on.

    estimate: mean difference D, log units; interval: two-sided, log units; e_value and threshold:
    of the test that decided (for `undecided`, normally the test for "better"); n: number of pairs;
    method: name of the test; reason: one sentence for display.
    """

    outcome: Outcome
    estimate: float
    interval: Interval
    e_value: float
    threshold: float
    n: int
    method: str
    reason: str

    @property
    def ratio(self) -> float:
        """exp(D): geometric-mean time of the candidate over that of the reference."""
        return math.exp(self.estimate)


def assess(
    differences: Sequence[float] | Floats,
    *,
    delta: float,
    alpha: float = 0.025,
    max_n: int | None = None,
    reference: str = "baseline",
) -> Verdict:
    """Judge a candidate against a reference from paired differences D, shape (n,), log units.

    Every test is one-sided at `alpha`, and the interval is two-sided with level 1 - 2 alpha at the
    same threshold, so outcome and interval never contradict each other. In order of precedence:

    - worse_by_delta: E(D - L) reaches the threshold, L = ln(1 + delta): slower by more than delta;
    - equivalent: E(D + L) and E(L - D) both do: the difference is smaller than delta, the smallest
      worth acting on, whether or not it is 0 (e_value is the smaller of the two);
    - better: E(-D) does; worse: E(D) does;
    - undecided otherwise, and always below 3 pairs.

    max_n: maximum number of pairs, fixed before the first look, for calibrated thresholds; with
    None, or more pairs than that, Ville's apply. reference: name of the reference in the sentence.
    Raises ValueError for differences that are not finite, and for alpha, delta, max_n out of range.
    """
    x = np.asarray(differences, dtype=np.float64)
    if x.ndim != 1:
        raise ValueError(f"differences must have one axis, got shape {x.shape}")
    if not bool(np.isfinite(x).all()):
        raise ValueError(f"difference at index {int(np.argmin(np.isfinite(x)))} is not finite")
    limit = margin(delta)
    level = threshold(alpha, max_n if max_n is None or x.size <= max_n else None)
    m = moments(x)
    outcome, e = _outcome(m, limit, level)
    lower, upper = bounds(m, level)
    interval = Interval(float(lower), float(upper))
    estimate = float(m.mean)
    sentence = describe(
        estimate, interval, x.size, confidence=1.0 - 2.0 * alpha, reference=reference
    )
    if outcome is Outcome.EQUIVALENT:
        sentence = f"within {percent(limit)} of {reference}: {sentence}"
    elif outcome is Outcome.UNDECIDED and x.size >= MIN_PAIRS:
        sentence = f"no difference from {reference} shown yet: {sentence}"
    return Verdict(outcome, estimate, interval, e, level, x.size, METHOD, sentence)


def _outcome(m: Moments, limit: float, level: float) -> tuple[Outcome, float]:
    e_better = float(e_from_log(m.log_e_below(0.0)))
    if int(m.n) < MIN_PAIRS:
        return Outcome.UNDECIDED, e_better
    e_worse_by_delta = float(e_from_log(m.log_e_above(limit)))
    e_equivalent = min(
        float(e_from_log(m.log_e_above(-limit))), float(e_from_log(m.log_e_below(limit)))
    )
    e_worse = float(e_from_log(m.log_e_above(0.0)))
    for outcome, e in (
        (Outcome.WORSE_BY_DELTA, e_worse_by_delta),
        (Outcome.EQUIVALENT, e_equivalent),
        (Outcome.BETTER, e_better),
        (Outcome.WORSE, e_worse),
    ):
        if e >= level:
            return outcome, e
    return Outcome.UNDECIDED, e_better


def describe(
    estimate: float, interval: Interval, n: int, *, confidence: float, reference: str
) -> str:
    """For example "6.1% faster than baseline (95% interval 3.0 to 9.1%) after 6 blocks"."""
    if n < MIN_PAIRS:
        return f"too early to judge: {blocks(n)} measured, {MIN_PAIRS} needed"
    text = interval_text(estimate, interval.lower, interval.upper, confidence)
    return f"{change(estimate)} than {reference} ({text}) after {blocks(n)}"
