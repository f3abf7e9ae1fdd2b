"""The race: whether a trial is dropped, promoted or kept, by its comparison with the baseline.

Owns the rules of that decision. Pure: same input, same decision. All decisions use the e-value of
all pairs so far, so the order of the blocks does not matter (a maximum over the looks so far would
depend on it, and would be no more valid).

Guarantees, for normal differences (D of the trial against the baseline, L = ln(1 + delta)):

- P(a trial truly faster than the baseline by delta or more is ever stopped as futile or as
  equivalent to it) <= `RaceRules.level_futility`, whatever the number of trials.
- P(a trial with no component worse than the baseline by more than the floor is ever pruned for the
  floor) <= alpha_futility, split equally among its components.
- Promotion steers the search and is not a claim: many trials have many chances at alpha_promote.

What to expect with max_blocks = 30 and delta = 2% (mean blocks, share decided by the end): a trial
as fast as the baseline is dropped as futile after 5 blocks at sd(D) = 1%, 11 at 2%, 19 at 3%
(78%), and seldom at 5% or more (34%), where max_blocks ends it. A trial 10% slower is dropped after
4, 5, 9 and 21 (65%) blocks at sd(D) = 3, 5, 10 and 20%; one 10% faster is promoted after 5, 7, 15
and 27 (30%).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np

from tuner.judge.confidence import Interval, bounds
from tuner.judge.evalue import MIN_PAIRS, Floats, Moments, e_from_log, moments
from tuner.judge.score import checked_weights, component_names, margin
from tuner.judge.thresholds import threshold
from tuner.judge.verdict import METHOD, Outcome, Verdict, describe
from tuner.judge.words import change, percent

_DISPLAY_ALPHA: Final = 0.025  # for each end of the displayed interval: 95%


class Action(StrEnum):
    """Decision on a trial; all except `promote` and `keep` end its measurements."""

    PRUNE = "prune"
    EQUIVALENT = "equivalent"
    PROMOTE = "promote"
    KEEP = "keep"


@dataclass(frozen=True, slots=True, kw_only=True)
class RaceRules:
    """The rules of a race, fixed before its first block.

    delta: smallest difference worth acting on; floor: largest loss allowed to one component
    against the baseline (both fractions). max_blocks: maximum number of pairs of a trial;
    min_blocks: minimum number before any decision.
    Raises ValueError for values out of range.
    """

    delta: float
    max_blocks: int
    min_blocks: int = MIN_PAIRS
    alpha_futility: float = 0.05
    alpha_promote: float = 0.01
    alpha_equivalent: float = 0.05
    floor: float = 0.05

    def __post_init__(self) -> None:
        margin(self.delta)
        margin(self.floor)
        if not MIN_PAIRS <= self.min_blocks <= self.max_blocks:
            raise ValueError(
                f"need {MIN_PAIRS} <= min_blocks <= max_blocks, "
                f"got {self.min_blocks} and {self.max_blocks}"
            )
        for alpha in (self.alpha_futility, self.alpha_promote, self.alpha_equivalent):
            if not 0.0 < alpha < 1.0:
                raise ValueError(f"every alpha must be between 0 and 1, got {alpha}")

    @property
    def level_futility(self) -> float:
        """The level of the test for futility; .0304 by default.

        All of alpha_futility would keep the promise too, but a campaign that is resumed must decide
        as it did when it began.
        """
        return 6.0 * self.alpha_futility / math.pi**2


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision on a trial and its reason."""

    trial: int
    action: Action
    verdict: Verdict
    reason: str


@dataclass(frozen=True, slots=True)
class _Choice:
    """An action, the test behind it, and the start of the sentence that gives the reason."""

    action: Action
    e_value: float
    threshold: float
    reason: str


def decide(
    trial: int,
    logs: Floats,
    rules: RaceRules,
    weights: tuple[float, ...],
    components: tuple[str, ...] = (),
) -> Decision:
    """Decide on a trial.

    In order of precedence, with min_blocks pairs or more:

    - floor: a component is slower than the baseline's by more than the floor -> prune;
    - not faster than the baseline by delta -> equivalent if it is not slower by delta either,
      otherwise prune. This precedes promotion: a gain shown to be below delta is not worth having;
    - faster than the baseline -> promote;
    - max_blocks pairs without a decision -> prune, with the estimate in the reason;
    - keep.

    In the verdict, interval (two-sided, 95%) and outcome agree with each other; e_value and
    threshold are those of the test that decided, or of promotion if none did.

    Args:
        logs: ln T of the baseline and of the trial, shape (2, blocks, components), NaN where not
            measured. A block counts if it has both.
        weights: One for each component, summing to 1.
        components: Their names, used in the reason; numbered by default.

    Raises ValueError for weights or names of wrong length.
    """
    names = component_names(components, len(weights))
    scores = logs @ checked_weights(weights, len(weights))
    m = moments(scores[1] - scores[0])
    choice = _floor_break(logs, names, rules) or _choice(rules, m)
    n, estimate = int(m.n), float(m.mean)
    low, high = bounds(m, _level(_DISPLAY_ALPHA, rules, n))
    interval = Interval(float(low), float(high))
    confidence = 1.0 - 2.0 * _DISPLAY_ALPHA
    text = describe(estimate, interval, n, confidence=confidence, reference="baseline")
    outcome = _outcome(choice.action, n, interval, margin(rules.delta))
    verdict = Verdict(
        outcome, estimate, interval, choice.e_value, choice.threshold, n, METHOD, text
    )
    return Decision(trial, choice.action, verdict, choice.reason + text)


def _choice(rules: RaceRules, m: Moments) -> _Choice:
    """Decide by the comparison of scores, ignoring floors."""
    limit, n = margin(rules.delta), int(m.n)
    not_better = float(e_from_log(m.log_e_above(-limit)))  # E(D + L): against "faster by delta"
    not_worse = float(e_from_log(m.log_e_below(limit)))  # E(L - D): against "slower by delta"
    faster = float(e_from_log(m.log_e_below(0.0)))  # E(-D)
    both = min(not_better, not_worse)
    # It is no claim, so a trial with more blocks than allowed for does not need more evidence.
    promote = threshold(rules.alpha_promote, rules.max_blocks)
    futile = _level(rules.level_futility, rules, n)
    same = _level(rules.alpha_equivalent, rules, n)
    if n < rules.min_blocks:
        return _Choice(Action.KEEP, faster, promote, f"{rules.min_blocks} blocks needed: ")
    if both >= same and not_better >= futile:
        return _Choice(Action.EQUIVALENT, both, same, f"within {percent(limit)} of baseline: ")
    if not_better >= futile:
        reason = f"not {percent(limit)} faster than baseline: "
        return _Choice(Action.PRUNE, not_better, futile, reason)
    if faster >= promote:
        return _Choice(Action.PROMOTE, faster, promote, "")
    if n >= rules.max_blocks:
        reason = f"undecided after the {rules.max_blocks} blocks allowed: "
        return _Choice(Action.PRUNE, faster, promote, reason)
    return _Choice(Action.KEEP, faster, promote, "undecided: ")


def _floor_break(logs: Floats, names: tuple[str, ...], rules: RaceRules) -> _Choice | None:
    """The choice for a trial with a component shown to break the floor, otherwise None."""
    m = moments((logs[1] - logs[0]).T)
    evidence = e_from_log(m.log_e_above(margin(rules.floor)))
    evidence = np.where(m.n >= rules.min_blocks, evidence, 0.0)
    worst = int(np.argmax(evidence))
    n, e = int(m.n[worst]), float(evidence[worst])
    level = _level(rules.alpha_futility / len(names), rules, n)
    if e < level:
        return None
    reason = (
        f"{names[worst]} is {change(float(m.mean[worst]))} than "
        f"baseline, more than the floor of {percent(margin(rules.floor))}: "
    )
    return _Choice(Action.PRUNE, e, level, reason)


def _outcome(action: Action, n: int, interval: Interval, limit: float) -> Outcome:
    """The outcome supported by the displayed interval (or the equivalence test)."""
    if action is Action.EQUIVALENT:
        return Outcome.EQUIVALENT
    if n < MIN_PAIRS:
        return Outcome.UNDECIDED
    if interval.lower > limit:
        return Outcome.WORSE_BY_DELTA
    if interval.upper < 0.0:
        return Outcome.BETTER
    return Outcome.WORSE if interval.lower > 0.0 else Outcome.UNDECIDED


def _level(alpha: float, rules: RaceRules, n: int) -> float:
    return threshold(alpha, rules.max_blocks if n <= rules.max_blocks else None)
