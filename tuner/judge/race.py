"""One step of the race: decide on each live trial from the complete blocks so far.

Owns the rules by which a trial is dropped, promoted or kept. Pure: same input, same decisions. All
decisions use the e-value of all pairs so far, so the order of the blocks does not matter (a maximum
over the looks so far would depend on it, and would be no more valid).

Guarantees, for normal differences (D of the trial against the incumbent, L = ln(1 + delta)):

- P(a trial truly faster than a given incumbent by delta or more is ever stopped as futile or as
  equivalent to it) <= alpha_j, where j counts the incumbents the trial has faced, including the
  first one, and alpha_j = 6 alpha_futility / (pi^2 j^2); these sum to alpha_futility however often
  the incumbent changes, and no factor for the number of trials is needed. Pairs from before a
  promotion are used although they contributed to it; in simulations with up to 40 trials and
  incumbents promoted by chance, the sum still holds.
- P(a trial with no component worse than the baseline by more than the floor is ever pruned for the
  floor) <= alpha_futility, split equally among its components.
- Promotion steers the search and is not a claim: many trials have many chances at alpha_promote.
- A run cut short counts with the elapsed times, which are too small. That can only delay the tests
  that prune (as long as the cut-off lies far above the noise, as with any one-sided truncation of
  D); it would speed up promotion and equivalence, so both are ruled out for such a trial.

What to expect with max_blocks = 30 and delta = 2% (mean blocks, share decided by the end): a trial
as fast as the incumbent is dropped as futile after 5 blocks at sd(D) = 1%, 11 at 2%, 19 at 3%
(78%), and seldom at 5% or more (34%), where max_blocks ends it. A trial 10% slower is dropped after
4, 5, 9 and 21 (65%) blocks at sd(D) = 3, 5, 10 and 20%; one 10% faster is promoted after 5, 7, 15
and 27 (30%).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tuner.judge.confidence import Interval, bounds
from tuner.judge.evalue import MIN_PAIRS, Floats, Moments, e_from_log, moments
from tuner.judge.score import checked_weights, component_names, margin
from tuner.judge.thresholds import threshold
from tuner.judge.verdict import METHOD, Outcome, Verdict, describe
from tuner.judge.words import change, percent
from tuner.model import BASELINE

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


@dataclass(frozen=True, slots=True)
class RaceBlock:
    """One complete block: component times (s) by trial number, and the incumbent at the time.

    censored: trials whose run was cut short in this block. Their times are lower bounds: for an
    unfinished component, the seconds elapsed by then (above 0, like any time).
    """

    times_s: Mapping[int, tuple[float, ...]]
    incumbent: int = BASELINE
    censored: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class RaceState:
    """All complete blocks in the order measured, the trials still in the race, and the incumbent.

    live: trials to decide on, including the incumbent; the baseline may be included and is ignored.
    weights: one per component, summing to 1. components: names used in the reasons; numbered by
    default.
    """

    blocks: tuple[RaceBlock, ...]
    live: frozenset[int]
    incumbent: int
    weights: tuple[float, ...]
    components: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RaceTable:
    """The content of a `RaceState` as arrays, for races with many blocks.

    trials: the rows: the baseline, then the trials to decide on by number. logs: ln T, shape (rows,
    blocks, components), NaN if not measured. incumbents: shape (blocks,), the incumbent of each
    block. cut_short: trials with any run cut short.
    """

    trials: tuple[int, ...]
    logs: Floats
    incumbents: NDArray[np.int64]
    incumbent: int
    weights: tuple[float, ...]
    components: tuple[str, ...] = ()
    cut_short: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision on a trial and its reason; `against` is the trial it was compared with."""

    trial: int
    action: Action
    verdict: Verdict
    reason: str
    against: int


def futility_alpha(alpha: float, incumbents_faced: int) -> float:
    """alpha_j = 6 alpha / (pi^2 j^2) for the j-th incumbent a trial faces; sums to alpha over j."""
    if incumbents_faced < 1:
        raise ValueError(f"incumbents_faced must be at least 1, got {incumbents_faced}")
    return 6.0 * alpha / (math.pi * incumbents_faced) ** 2


def decide(state: RaceState, rules: RaceRules) -> tuple[Decision, ...]:
    """Decide on every live trial, in order of trial number; at most one is promoted.

    In order of precedence, for a trial with min_blocks pairs or more:

    - floor: a component is slower than the baseline's by more than the floor -> prune;
    - not faster than the incumbent by delta -> equivalent if it is not slower by delta either,
      otherwise prune. This precedes promotion: a gain shown to be below delta is not worth having;
    - faster than the incumbent -> promote (of several, the one with the best estimate);
    - max_blocks pairs without a decision -> prune, with the estimate in the reason;
    - keep.

    A trial with a run cut short is neither promoted nor called equivalent: it is pruned or kept.
    A pair counts if trial and incumbent (for the floor: baseline) were in the same block. The
    incumbent itself is compared with the baseline and only its floor is tested; if it is pruned,
    the baseline takes its place. In a verdict, interval (two-sided, 95%) and outcome agree with
    each other; e_value and threshold are those of the test that decided, or of promotion if none
    did.

    Raises ValueError for times that are not above 0, for a block without the baseline or with a
    wrong number of components, for weights or names of wrong length, for an incumbent that is not
    live, and if a run of the baseline or of the incumbent was cut short, since nothing could be
    compared with it.
    """
    if state.incumbent != BASELINE and state.incumbent not in state.live:
        raise ValueError(f"incumbent {state.incumbent} is not among the live trials")
    rows = (BASELINE, *sorted(state.live - {BASELINE}))
    if len(rows) == 1:
        return ()
    component_names(state.components, len(state.weights))
    checked_weights(state.weights, len(state.weights))
    table = RaceTable(
        rows,
        _log_time_table(state, rows),
        np.array([block.incumbent for block in state.blocks], dtype=np.int64),
        state.incumbent,
        state.weights,
        state.components,
        _cut_short(state),
    )
    return decide_on(table, rules)


def decide_on(state: RaceTable, rules: RaceRules) -> tuple[Decision, ...]:
    """Like `decide`, for a state in table form. Raises ValueError for weights or names of wrong
    length, and for an incumbent that is not among the rows.
    """
    rows, trials, logs = state.trials, list(state.trials[1:]), state.logs
    if not trials:
        return ()
    if state.incumbent not in rows:
        raise ValueError(f"incumbent {state.incumbent} is not among the live trials")
    names = component_names(state.components, len(state.weights))
    weights = checked_weights(state.weights, len(state.weights))
    reference = np.full(len(trials), rows.index(state.incumbent))
    if state.incumbent != BASELINE:
        reference[trials.index(state.incumbent)] = 0
    scores = logs @ weights
    m = moments(scores[1:] - scores[reference])
    floor_breaks = _floor_breaks(logs, names, rules)
    choices = _choices(state, rules, trials, m, _incumbents_faced(state))
    for row, broken in floor_breaks.items():
        choices[row] = broken
    _promote_one(choices, m, trials)
    low, high = _display_bounds(m, rules)

    decisions = []
    for row, trial in enumerate(trials):
        against = BASELINE if trial == state.incumbent else state.incumbent
        n, estimate = int(m.n[row]), float(m.mean[row])
        interval = Interval(float(low[row]), float(high[row]))
        choice = choices[row]
        description = describe(
            estimate, interval, n, confidence=1.0 - 2.0 * _DISPLAY_ALPHA, reference=_name(against)
        )
        reason = choice.reason + description
        outcome = _outcome(choice.action, n, interval, margin(rules.delta))
        verdict = Verdict(
            outcome, estimate, interval, choice.e_value, choice.threshold, n, METHOD, description
        )
        decisions.append(Decision(trial, choice.action, verdict, reason, against))
    return tuple(decisions)


@dataclass(frozen=True, slots=True)
class _Choice:
    """An action, the test behind it, and the start of the sentence that gives the reason."""

    action: Action
    e_value: float
    threshold: float
    reason: str


def _choices(
    state: RaceTable, rules: RaceRules, trials: list[int], m: Moments, faced: list[int]
) -> list[_Choice]:
    """Decide on each trial by its comparison with the incumbent, ignoring floors."""
    limit = margin(rules.delta)
    not_better = e_from_log(m.log_e_above(-limit))  # E(D + L): evidence against "faster by delta"
    not_worse = e_from_log(m.log_e_below(limit))  # E(L - D): evidence against "slower by delta"
    faster = e_from_log(m.log_e_below(0.0))  # E(-D)
    name, most = _name(state.incumbent), percent(limit)
    cut_short = state.cut_short
    choices = []
    for row, trial in enumerate(trials):
        n = int(m.n[row])
        promote = _level(rules.alpha_promote, rules, n)
        futile = _level(futility_alpha(rules.alpha_futility, faced[row]), rules, n)
        same = _level(rules.alpha_equivalent, rules, n)
        e, both = float(faster[row]), float(min(not_better[row], not_worse[row]))
        if trial == state.incumbent:
            choice = _Choice(Action.KEEP, e, promote, "the incumbent: ")
        elif n < rules.min_blocks:
            reason = f"{rules.min_blocks} blocks needed: "
            choice = _Choice(Action.KEEP, e, promote, reason)
        elif both >= same and not_better[row] >= futile and trial not in cut_short:
            choice = _Choice(Action.EQUIVALENT, both, same, f"within {most} of {name}: ")
        elif not_better[row] >= futile:
            reason = f"not {most} faster than {name}: "
            choice = _Choice(Action.PRUNE, float(not_better[row]), futile, reason)
        elif e >= promote and trial not in cut_short:
            choice = _Choice(Action.PROMOTE, e, promote, "")
        elif n >= rules.max_blocks:
            reason = f"undecided after the {rules.max_blocks} blocks allowed: "
            choice = _Choice(Action.PRUNE, e, promote, reason)
        else:
            reason = "undecided, and a run was cut short: " if trial in cut_short else "undecided: "
            choice = _Choice(Action.KEEP, e, promote, reason)
        choices.append(choice)
    return choices


def _promote_one(choices: list[_Choice], m: Moments, trials: list[int]) -> None:
    """Keep only the promotion with the best estimate; the other trials stay in the race."""
    winners = [row for row, choice in enumerate(choices) if choice.action is Action.PROMOTE]
    winners.sort(key=lambda row: float(m.mean[row]))
    for row in winners[1:]:
        reason = f"{_name(trials[winners[0]])} is promoted first: "
        choices[row] = replace(choices[row], action=Action.KEEP, reason=reason)


def _display_bounds(m: Moments, rules: RaceRules) -> tuple[Floats, Floats]:
    """Bounds of the displayed interval; Ville's for trials past the horizon."""
    low, high = bounds(m, threshold(_DISPLAY_ALPHA, rules.max_blocks))
    late = m.n > rules.max_blocks
    if bool(late.any()):
        late_low, late_high = bounds(m, threshold(_DISPLAY_ALPHA))
        low, high = np.where(late, late_low, low), np.where(late, late_high, high)
    return low, high


def _floor_breaks(logs: Floats, names: tuple[str, ...], rules: RaceRules) -> dict[int, _Choice]:
    """The trials (by row, not counting the baseline) with a component shown to break the floor."""
    by_component = np.moveaxis(logs, 2, 1)  # (trials, components, blocks)
    m = moments(by_component[1:] - by_component[0])
    evidence = e_from_log(m.log_e_above(margin(rules.floor)))
    evidence = np.where(m.n >= rules.min_blocks, evidence, 0.0)
    worst = np.argmax(evidence, axis=1)
    alpha = rules.alpha_futility / logs.shape[2]
    choices = {}
    for row in np.flatnonzero(evidence.max(axis=1) >= threshold(alpha, rules.max_blocks)):
        component = int(worst[row])
        n, e = int(m.n[row, component]), float(evidence[row, component])
        level = _level(alpha, rules, n)
        if e >= level:
            reason = (
                f"{names[component]} is {change(float(m.mean[row, component]))} than "
                f"baseline, more than the floor of {percent(margin(rules.floor))}: "
            )
            choices[int(row)] = _Choice(Action.PRUNE, e, level, reason)
    return choices


def _cut_short(state: RaceState) -> frozenset[int]:
    """The trials with any run cut short."""
    trials = frozenset[int]().union(*(block.censored for block in state.blocks))
    for reference in (BASELINE, state.incumbent):
        if reference in trials:
            raise ValueError(f"a run of {_name(reference)} was cut short: the others race it")
    return trials


def _log_time_table(state: RaceState, rows: tuple[int, ...]) -> Floats:
    """ln T, (trials, blocks, components), NaN if not measured."""
    components = len(state.weights)
    missing = (math.nan,) * components
    table = np.empty((len(rows), len(state.blocks), components))
    for index, block in enumerate(state.blocks):
        if BASELINE not in block.times_s:
            raise ValueError(f"block {index} has no baseline")
        times = [block.times_s.get(trial, missing) for trial in rows]
        wrong = [trial for trial, t in zip(rows, times, strict=True) if len(t) != components]
        if wrong:
            raise ValueError(
                f"block {index}, trial {wrong[0]}: need {components} component times, "
                f"got {len(block.times_s[wrong[0]])}"
            )
        table[:, index] = times
        row_times = table[:, index]
        fine = ((row_times > 0.0) & np.isfinite(row_times)).all(axis=1)
        for trial in (rows[row] for row in np.flatnonzero(~fine)):
            if trial in block.times_s:
                raise ValueError(
                    f"block {index}, trial {trial}: times must be finite and above 0 s, "
                    f"got {block.times_s[trial]}"
                )
    return np.asarray(np.log(table), dtype=np.float64)


def _incumbents_faced(state: RaceTable) -> list[int]:
    """For each trial, the number of incumbents it has been measured with or is tested against."""
    has_times = ~np.isnan(state.logs[1:, :, 0])
    in_force = state.incumbents
    numbers = np.array(state.trials[1:])
    faced = np.zeros(len(numbers), dtype=np.int64)
    for incumbent in {*in_force.tolist(), state.incumbent}:
        met = has_times[:, in_force == incumbent].any(axis=1) | (incumbent == state.incumbent)
        faced += met & (numbers != incumbent)
    return [max(int(count), 1) for count in faced]


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


def _name(trial: int) -> str:
    return "baseline" if trial == BASELINE else f"trial {trial}"
