"""The pilot: the baseline against a twin with the same settings, before anything is tuned.

Owns the assessment of a testbed from such blocks: how noisy it is, whether it drifts, depends on
its past or is slow to warm up, what a campaign can hope to show, and whether it should not start at
all. Each block has two runs of the baseline in random order, labelled a and b at random,
independently of the order; D = s_a - s_b.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np

from tuner.judge.assumptions import (
    Alarm,
    Guard,
    baseline_dependence,
    baseline_drift,
    dependence,
)
from tuner.judge.auto_floor import ENOUGH, FloorChoice, choose_floor
from tuner.judge.confidence import confidence_interval
from tuner.judge.evalue import MIN_PAIRS, Floats
from tuner.judge.levels import MOST_BLOCKS
from tuner.judge.power import Forecast, detectable_effect, predict
from tuner.judge.score import checked_weights, component_names, log_times, margin
from tuner.judge.series import testbed_numbers
from tuner.judge.special import stdtr
from tuner.judge.thresholds import threshold
from tuner.judge.verdict import Outcome, Verdict, assess
from tuner.judge.words import blocks, change, minutes_or_hours, percent, probability

_ALPHA_EQUIVALENT: Final = 0.05
_ALPHA_DIFFERENT: Final = 0.005  # each side: a sound testbed is refused in 1 of 100 pilots
_ALPHA_WARM_UP: Final = 0.01
_FEWEST: Final = 8  # blocks: with fewer, guards detect nothing and the noise is unreliable
_PILOT_SIGHT: Final = 1.75  # times the effect with 80% power: 98 of 100 sound testbeds pass


@dataclass(frozen=True, slots=True)
class PilotBlock:
    """Two runs of the baseline: component times (s) of both labels, and which ran first.

    duration_s: of the whole block, including restarts. testbed: where it was measured.
    """

    a_s: tuple[float, ...]
    b_s: tuple[float, ...]
    a_first: bool
    duration_s: float
    testbed: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PilotRules:
    """The plan of the campaign, as far as the pilot needs it.

    delta, floor: fractions, as in `race.RaceRules`; if floor is None, it is chosen from the pilot's
    noise, for floor tests at floor_alpha (one-sided). max_blocks: maximum number of pilot blocks.
    arms: runs per search block. budget_s, budget_measurements: maximum time (s) and maximum number
    of runs in total, None for no limit. certify_share: share of them reserved for certification,
    with at most certify_blocks blocks of certify_arms runs each. testbeds: blocks measured at once.
    compares: nothing is searched, so that all measurements after the pilot certify.
    Raises ValueError for values out of range.
    """

    weights: tuple[float, ...]
    delta: float
    floor: float | None
    max_blocks: int
    budget_s: float
    arms: int
    certify_blocks: int
    certify_share: float
    certify_arms: int = 2
    alpha_certify: float = 0.025
    floor_alpha: float = 0.2
    components: tuple[str, ...] = ()
    budget_measurements: int | None = None
    testbeds: int = 1
    compares: bool = False

    def __post_init__(self) -> None:
        checked_weights(self.weights, len(self.weights))
        component_names(self.components, len(self.weights))
        margin(self.delta)
        margin(0.5 if self.floor is None else self.floor)
        threshold(self.alpha_certify)
        threshold(self.floor_alpha)
        if self.max_blocks < MIN_PAIRS or not MIN_PAIRS <= self.certify_blocks <= MOST_BLOCKS:
            raise ValueError(
                f"need at least {MIN_PAIRS} blocks, and at most {MOST_BLOCKS} to certify"
            )
        if min(self.arms, self.certify_arms) < 2:
            raise ValueError("need at least 2 arms in every block")
        if not self.budget_s > 0.0 or not 0.0 < self.certify_share < 1.0:
            raise ValueError("need a budget above 0 s, and a share between 0 and 1")

    def certify_room(self, runs: float) -> int:
        """How many blocks of certification the share of so many runs in total is enough for."""
        return min(self.certify_blocks, int(self.certify_share * runs / self.certify_arms))


class PilotOutcome(StrEnum):
    """Whether a campaign may start: sound, refused, or undecided (measure more blocks)."""

    SOUND = "sound"
    REFUSED = "refused"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class ComponentNoise:
    """The noise of one component, or of the score.

    cv: coefficient of variation over all runs; cv_within: the same without variation common to the
    runs of a block, which pairing removes; sd_difference: sd(D), log units, the one that matters.
    """

    name: str
    cv: float
    cv_within: float
    sd_difference: float


@dataclass(frozen=True, slots=True)
class WarmUp:
    """Whether the first run of a block, or the first block, is slower or faster than the rest."""

    shown: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Outlook:
    """What the budget can achieve at the noise measured by the pilot.

    run_s: time of one run, including its share of restarts. search_blocks, certify_blocks: numbers
    that fit the budget; search_blocks is None where nothing is searched. detectable: the smallest
    improvement, a fraction, certified with 80% power (ignoring floors). delta: outlook for
    certifying an improvement of delta. floor: the choice of ``floor: auto``. floors: P(the floor is
    shown for an unchanged component, at the error of the gain), by component.
    """

    run_s: float
    search_blocks: int | None
    certify_blocks: int
    detectable: float
    delta: Forecast | None
    floors: tuple[float, ...]
    reason: str
    floor: FloorChoice


@dataclass(frozen=True, slots=True)
class Pilot:
    """All results of the pilot. verdict: a against b; refusals: reasons not to start, sentences.

    warnings: sentences on problems that are no reason to refuse. guards: dependence of D,
    dependence and drift of the baseline; not skewness, since two runs of one configuration differ
    symmetrically.
    """

    outcome: PilotOutcome
    verdict: Verdict
    noise: ComponentNoise
    components: tuple[ComponentNoise, ...]
    guards: tuple[Guard, ...]
    warm_up: WarmUp
    outlook: Outlook
    refusals: tuple[str, ...]
    warnings: tuple[str, ...]


def assess_pilot(pilot_blocks: Sequence[PilotBlock], rules: PilotRules) -> Pilot:
    """Judge the pilot blocks so far, in the order measured; may be called after every block.

    sound: after 8 blocks or more (or max_blocks, if that is less), a and b are shown to differ by
    less than delta, or than what campaign and pilot can resolve at this noise if that is more (two
    one-sided tests at .05). refused: they are shown to differ (one-sided .005), or not shown to be
    equal by max_blocks, or D depends strongly on the previous block, or the budget is too small for
    a certification. undecided: more blocks are needed.

    Raises ValueError for fewer than 3 blocks, for times not above 0 and for wrong numbers of
    components.
    """
    if len(pilot_blocks) < MIN_PAIRS:
        raise ValueError(f"a pilot needs at least {MIN_PAIRS} blocks, got {len(pilot_blocks)}")
    for index, block in enumerate(pilot_blocks):
        if {len(block.a_s), len(block.b_s)} != {len(rules.weights)}:
            raise ValueError(f"block {index}: need {len(rules.weights)} component times a run")
    a = np.array([block.a_s for block in pilot_blocks])
    b = np.array([block.b_s for block in pilot_blocks])
    logs = np.stack([log_times(a), log_times(b)])  # (label, blocks, components)
    scores = logs @ checked_weights(rules.weights, len(rules.weights))
    d = scores[0] - scores[1]
    names = component_names(rules.components, len(rules.weights))
    noise = _noise("score", scores)
    components = tuple(_noise(name, logs[:, :, i]) for i, name in enumerate(names))
    level = scores.mean(axis=0)
    testbed = testbed_numbers([block.testbed for block in pilot_blocks])
    guards = (dependence(d, testbed), baseline_dependence(level, testbed), baseline_drift(level))
    a_first = np.array([block.a_first for block in pilot_blocks])
    warm_up = _warm_up(np.where(a_first, d, -d), level)
    run_s = float(np.mean([block.duration_s for block in pilot_blocks])) / 2.0
    outlook = _outlook(run_s, noise, components, rules, len(pilot_blocks))
    within = _within(noise, outlook, rules)
    verdict = _verdict(d, rules, within)
    refusals = _refusals(verdict, noise, guards, outlook, rules, within)
    is_enough = verdict.outcome is Outcome.EQUIVALENT and verdict.n >= min(
        _FEWEST, rules.max_blocks
    )
    return Pilot(
        outcome=(
            PilotOutcome.REFUSED
            if refusals
            else PilotOutcome.SOUND
            if is_enough
            else PilotOutcome.UNDECIDED
        ),
        verdict=verdict,
        noise=noise,
        components=components,
        guards=guards,
        warm_up=warm_up,
        outlook=outlook,
        refusals=refusals,
        warnings=_warnings(guards, warm_up, outlook, names, rules),
    )


def _within(noise: ComponentNoise, outlook: Outlook, rules: PilotRules) -> float:
    """Largest difference of the baseline from its twin to tolerate: delta, or what can be resolved.

    Requiring more than campaign and pilot can resolve would refuse every noisy testbed, although
    large improvements can still be found there.
    """
    campaign = outlook.detectable if math.isfinite(outlook.detectable) else 0.0
    effect = _PILOT_SIGHT * detectable_effect(rules.max_blocks, _ALPHA_EQUIVALENT)
    pilot = math.expm1(min(effect * noise.sd_difference, 700.0))
    return max(rules.delta, campaign, pilot)


def _verdict(d: Floats, rules: PilotRules, within: float) -> Verdict:
    """a against b; a difference needs much stronger evidence than equivalence."""
    same, different = (
        assess(d, delta=within, alpha=alpha, max_n=rules.max_blocks, reference="its twin")
        for alpha in (_ALPHA_EQUIVALENT, _ALPHA_DIFFERENT)
    )
    return same if same.outcome is Outcome.EQUIVALENT else different


def _noise(name: str, logs: Floats) -> ComponentNoise:
    """logs: (label, blocks) of one component or of the score."""
    sd = float((logs[0] - logs[1]).std(ddof=1))
    return ComponentNoise(name, _cv(float(logs.std(ddof=1))), _cv(sd / math.sqrt(2.0)), sd)


def _cv(sd: float) -> float:
    """Coefficient of variation of a log-normal variable whose logarithm has this deviation."""
    return math.sqrt(math.expm1(min(sd**2, 700.0)))


def _warm_up(first_minus_second: Floats, level: Floats) -> WarmUp:
    position = float(first_minus_second.mean())
    by_position = 0.0 not in confidence_interval(first_minus_second, alpha=0.05)
    rest = level[1:]
    first_block = float(level[0] - rest.mean())
    error = float(rest.std(ddof=1)) * math.sqrt(1.0 + 1.0 / rest.size)
    p = 2.0 * float(stdtr(rest.size - 1, -abs(first_block) / error)) if error > 0.0 else 1.0
    by_block = p <= _ALPHA_WARM_UP
    reasons = []
    if by_position:
        reasons.append(f"the first run of a block is {change(position)} than the second")
    if by_block:
        reasons.append(f"the first block is {change(first_block)} than the others")
    advice = ": lengthen the warm-up of the workload"
    reason = " and ".join(reasons) + advice if reasons else "no warm-up effect shown"
    return WarmUp(bool(reasons), reason)


def _outlook(
    run_s: float,
    noise: ComponentNoise,
    components: Sequence[ComponentNoise],
    rules: PilotRules,
    pilot_blocks: int,
) -> Outlook:
    if not run_s > 0.0:
        raise ValueError(f"the blocks of a pilot must take more than 0 s, got {run_s:g} s a run")
    in_time = rules.budget_s / run_s
    runs = in_time
    if rules.budget_measurements is not None:
        runs = min(runs, rules.budget_measurements)
    n_in_time = rules.certify_room(in_time)
    search: int | None
    if rules.compares:  # whatever the pilot leaves is for fresh blocks
        left = max(0.0, runs - 2 * pilot_blocks)
        n, search = min(rules.certify_blocks, int(left / rules.certify_arms)), None
    else:
        n = rules.certify_room(runs)
        search = int((1.0 - rules.certify_share) * runs / rules.arms)
    sds = [component.sd_difference for component in components]
    choice = choose_floor(sds, pilot_blocks, n, rules.floor_alpha)
    alpha = rules.alpha_certify
    # Whether a floor that the campaign's file gives is strict is not stored, so it must not change
    # between releases.
    floor, most = (choice.floor, n) if rules.floor is None else (rules.floor, n_in_time)
    rooms = [_in_sd(margin(floor), sd) for sd in sds] if most >= MIN_PAIRS else []
    floors = tuple(predict(room, most, alpha).power for room in rooms)
    if n < MIN_PAIRS:
        reason = f"the budget leaves {blocks(n)} for certification, at least {MIN_PAIRS} are needed"
        return Outlook(run_s, search, n, math.inf, None, floors, reason, choice)
    smallest = detectable_effect(n, alpha) * noise.sd_difference
    ahead = predict(_in_sd(margin(rules.delta), noise.sd_difference), n, alpha)
    expected = minutes_or_hours(ahead.mean_blocks * rules.certify_arms * run_s)
    reason = (
        f"{blocks(n)} of certification show an improvement of {percent(smallest)} or more with "
        f"80% power, one of {percent(margin(rules.delta))} with {probability(ahead.power)} "
        f"(on average after {blocks(round(ahead.mean_blocks))}, {expected})"
    )
    return Outlook(
        run_s=run_s,
        search_blocks=search,
        certify_blocks=n,
        detectable=math.expm1(min(smallest, 700.0)),
        delta=ahead,
        floors=floors,
        reason=reason,
        floor=choice,
    )


def _refusals(
    verdict: Verdict,
    noise: ComponentNoise,
    guards: Sequence[Guard],
    outlook: Outlook,
    rules: PilotRules,
    within: float,
) -> tuple[str, ...]:
    refusals = []
    if verdict.outcome in (Outcome.BETTER, Outcome.WORSE, Outcome.WORSE_BY_DELTA):
        refusals.append(
            "the baseline differs from its twin although both have the same settings: "
            f"{verdict.reason}"
        )
    elif verdict.outcome is Outcome.UNDECIDED and verdict.n >= rules.max_blocks:
        refusals.append(
            f"the baseline is not shown to equal its twin within {percent(margin(within))} "
            f"after {blocks(verdict.n)}: two runs of it differ by {percent(noise.sd_difference)} "
            "(standard deviation); allow more pilot blocks or choose a larger delta"
        )
    refusals += [guard.reason for guard in guards if guard.alarm is Alarm.REFUSE]
    if outlook.certify_blocks < MIN_PAIRS:
        refusals.append(outlook.reason)
    return tuple(refusals)


def _warnings(
    guards: Sequence[Guard],
    warm_up: WarmUp,
    outlook: Outlook,
    names: tuple[str, ...],
    rules: PilotRules,
) -> tuple[str, ...]:
    sentences = [guard.reason for guard in guards if guard.alarm is Alarm.WARN]
    if warm_up.shown:
        sentences.append(warm_up.reason)
    if outlook.certify_blocks >= MIN_PAIRS and outlook.detectable > rules.delta:
        sentences.append(
            f"an improvement of {percent(margin(rules.delta))} is too small for this noise and "
            f"budget: {outlook.reason}; choose a larger budget, or a smaller workload with shorter "
            "runs"
        )
    if rules.floor is None:
        if outlook.floor.chance < ENOUGH:
            sentences.append(outlook.floor.reason)
        return tuple(sentences)
    noisy = [
        f"{name} ({100.0 * power:.0f}%)"
        for name, power in zip(names, outlook.floors, strict=False)
        if power < 0.8
    ]
    if noisy:
        sentences.append(
            f"the probability that a floor of {percent(margin(rules.floor))} is shown, if nothing "
            f"changes, is too small for {', '.join(noisy)}; choose a larger budget or floor"
        )
    return tuple(sentences)


def _in_sd(effect: float, sd: float) -> float:
    return effect / sd if sd > 0.0 else math.inf
