"""The plan of a campaign: from everything measured so far to what is done next. Pure.

Owns the order of things: races over proposals, dropping and promotion after each block, one
finalist, certification on fresh blocks, the answer. It replays the stored blocks through the judge
from the first one each time, so that a campaign taken up again reaches the same decisions from the
same measurements.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from statistics import fmean

from tuner.judge.certify import Certificate, CertificateOutcome, PairedTimes, certify
from tuner.judge.race import Action, Decision, RaceBlock, RaceRules, RaceState, decide
from tuner.judge.score import log_scores, margin
from tuner.model import BASELINE, Block, BlockKind, Measurement, Trial
from tuner.states import BlockState, TrialState

#: So many blocks of one run may go void one after another before the campaign stops.
MAX_VOID_IN_A_ROW = 4

#: Fresh blocks that certify an effect of a few times its noise (see judge/certify.py).
_BLOCKS_FOR_LARGE_EFFECTS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What a campaign is planned by, fixed before its first block.

    ``components`` and ``weights`` in the same order. ``budget_s``: measuring time;
    ``budget_measurements``: None for no limit. ``max_trials``: most proposals, None for no limit.
    ``certify_share``: the part of the budget that the search leaves to certification.
    """

    components: tuple[str, ...]
    weights: tuple[float, ...]
    race: RaceRules
    trials_per_race: int
    budget_s: float
    budget_measurements: int | None
    max_trials: int | None
    certify_blocks: int
    certify_share: float
    seed: int


class Phase(StrEnum):
    """What the campaign is busy with."""

    SEARCH = "search"
    CERTIFY = "certify"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class Propose:
    """Ask for ``count`` new configurations for race ``race``."""

    race: int
    count: int


@dataclass(frozen=True, slots=True)
class RunBlock:
    """Measure these arms once each, in this order."""

    number: int
    kind: BlockKind
    race: int
    order: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Finish:
    """Nothing more is to be measured. ``finalist``: None when there was nothing worth
    certifying.
    """

    finalist: int | None
    certificate: Certificate | None


@dataclass(frozen=True, slots=True)
class Halt:
    """The campaign cannot go on."""

    reason: str


Step = Propose | RunBlock | Finish | Halt


@dataclass(frozen=True, slots=True)
class Ending:
    """How a trial's measurements ended."""

    state: TrialState
    reason: str


@dataclass(frozen=True, slots=True)
class Plan:
    """The next step and how things stand.

    ``endings``: of every trial that the judge has ended. ``decisions``: those of the newest search
    block.
    """

    step: Step
    phase: Phase
    race: int
    incumbent: int
    live: tuple[int, ...]
    endings: Mapping[int, Ending]
    decisions: tuple[Decision, ...]
    certificate: Certificate | None = None


@dataclass(slots=True)
class _Replay:
    """The race as it stands after the blocks replayed so far."""

    incumbent: int = BASELINE
    blocks: list[RaceBlock] = field(default_factory=list)
    endings: dict[int, Ending] = field(default_factory=dict)
    decisions: tuple[Decision, ...] = ()
    replayed: int = 0


class Planner:
    """Plans one campaign, step after step.

    It remembers how far it has replayed the blocks, and nothing else: a new one, given the same
    rows, plans the same. ``rules`` may be tightened between steps (``max_trials``).
    """

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self._replay = _Replay()

    def plan(
        self, trials: Sequence[Trial], blocks: Sequence[Block], *, earlier_blocks: int = 0
    ) -> Plan:
        """What to do next; see ``plan``. ``blocks`` must begin with those of the last call."""
        failed = {t.number for t in trials if t.state in (TrialState.FAILED, TrialState.CANCELLED)}
        _advance(self._replay, trials, blocks, self.rules, failed)
        return _next(self._replay, trials, blocks, self.rules, failed, earlier_blocks)


def plan(
    trials: Sequence[Trial],
    blocks: Sequence[Block],
    rules: Rules,
    *,
    earlier_blocks: int = 0,
) -> Plan:
    """What to do next. ``trials`` and ``blocks``: all of the campaign's, in order of number.

    A trial whose stored state is ``failed`` or ``cancelled`` is out of its race. Blocks still
    running must have been made void before. ``earlier_blocks``: so many are of earlier runs; void
    ones among them do not stop this one.
    """
    return Planner(rules).plan(trials, blocks, earlier_blocks=earlier_blocks)


def _next(
    replay: _Replay,
    trials: Sequence[Trial],
    blocks: Sequence[Block],
    rules: Rules,
    failed: set[int],
    earlier_blocks: int,
) -> Plan:
    race = max((t.race for t in trials), default=0)
    incumbent = () if replay.incumbent == BASELINE else (replay.incumbent,)
    contenders = tuple(
        t.number
        for t in trials
        if t.race == race
        and t.number not in (BASELINE, replay.incumbent)
        and t.number not in failed
        and t.number not in replay.endings
    )
    live = (*incumbent, *contenders)
    endings = dict(replay.endings)
    here = Plan(Halt(""), Phase.SEARCH, race, replay.incumbent, live, endings, replay.decisions)
    if (reason := _void_reason(blocks[earlier_blocks:])) is not None:
        return replace(here, step=Halt(reason))
    fresh = [block for block in blocks if block.kind is BlockKind.CERTIFY]
    spent = _Spent.of(blocks)
    if not fresh:
        kept = _kept_for_certifying(here, trials, blocks, spent, rules)
        if contenders and spent.allows(rules, arms=1 + len(live), kept=kept):
            return replace(here, step=_block(blocks, BlockKind.SEARCH, race, live, rules))
        wanted = min(rules.trials_per_race, _trials_left(trials, rules))
        arms = (1 + len(incumbent) + wanted) * rules.race.min_blocks
        if not contenders and wanted > 0 and spent.allows(rules, arms=arms, kept=kept):
            return replace(here, step=Propose(race + 1, wanted))
    return _certification(here, trials, blocks, rules, failed)


def _advance(
    replay: _Replay,
    trials: Sequence[Trial],
    blocks: Sequence[Block],
    rules: Rules,
    failed: set[int],
) -> None:
    """Replay the blocks that are new since the last time."""
    by_race: dict[int, list[int]] = {}
    for trial in trials:
        by_race.setdefault(trial.race, []).append(trial.number)
    # A trial fails in the last block that it is part of; until then it raced like any other.
    left = {n: max((b.number for b in blocks if n in b.order), default=0) for n in failed}
    for block in blocks[replay.replayed :]:
        gone = {number for number, last in left.items() if last <= block.number}
        if replay.incumbent in gone:
            replay.incumbent = BASELINE
        if block.kind is not BlockKind.SEARCH or block.state is not BlockState.COMPLETE:
            continue
        times = {m.trial: component_times(m, rules.components) for m in block.measurements}
        replay.blocks.append(RaceBlock(times, replay.incumbent))
        live = {number for number in by_race.get(block.race, ()) if number in times}
        live = {n for n in live if n not in replay.endings and n not in gone}
        if replay.incumbent != BASELINE:
            live.add(replay.incumbent)
        live.discard(BASELINE)
        # Only blocks with one of these trials can say anything of them.
        heard = tuple(b for b in replay.blocks if live & b.times_s.keys())
        state = RaceState(heard, frozenset(live), replay.incumbent, rules.weights, rules.components)
        replay.decisions = decide(state, rules.race)
        for decision in replay.decisions:
            _follow(replay, decision, rules)
    replay.replayed = len(blocks)


def _follow(replay: _Replay, decision: Decision, rules: Rules) -> None:
    trial = decision.trial
    match decision.action:
        case Action.PROMOTE:
            if replay.incumbent != BASELINE:
                reason = f"trial {trial} took its place: {decision.reason}"
                replay.endings[replay.incumbent] = Ending(TrialState.COMPLETE, reason)
            replay.incumbent = trial
        case Action.EQUIVALENT:
            replay.endings[trial] = Ending(TrialState.COMPLETE, decision.reason)
        case Action.PRUNE:
            out_of_blocks = decision.verdict.n >= rules.race.max_blocks
            state = TrialState.COMPLETE if out_of_blocks else TrialState.PRUNED
            replay.endings[trial] = Ending(state, decision.reason)
            if trial == replay.incumbent:
                replay.incumbent = BASELINE
        case Action.KEEP:
            pass


def component_times(measurement: Measurement, components: Sequence[str]) -> tuple[float, ...]:
    """The times (s) of a measurement in the order of ``components``."""
    return tuple(measurement.components[name].elapsed_s for name in components)


def _void_reason(blocks: Sequence[Block]) -> str | None:
    newest = blocks[-MAX_VOID_IN_A_ROW:]
    if len(newest) < MAX_VOID_IN_A_ROW or any(b.state is not BlockState.VOID for b in newest):
        return None
    return f"{MAX_VOID_IN_A_ROW} blocks in a row went void; the last one: {newest[-1].reason}"


def _trials_left(trials: Sequence[Trial], rules: Rules) -> int:
    proposed = sum(trial.number != BASELINE for trial in trials)
    return (
        proposed + rules.trials_per_race
        if rules.max_trials is None
        else rules.max_trials - proposed
    )


@dataclass(frozen=True, slots=True)
class _Spent:
    """What the blocks so far have cost, void ones included."""

    seconds: float
    measurements: int

    @classmethod
    def of(cls, blocks: Sequence[Block]) -> _Spent:
        return cls(sum(b.duration_s for b in blocks), sum(len(b.measurements) for b in blocks))

    def allows(self, rules: Rules, *, arms: int, kept: float = 0.0) -> bool:
        """Whether so many more arms fit what is left of the budget when a share of it is kept."""
        arm_s = self.seconds / self.measurements if self.measurements else 0.0
        if self.seconds + arms * arm_s > (1.0 - kept) * rules.budget_s:
            return False
        limit = rules.budget_measurements
        return limit is None or self.measurements + arms <= (1.0 - kept) * limit

    def share(self, rules: Rules, *, arms: int) -> float:
        """The share of the budget that so many arms cost at the present pace."""
        arm_s = self.seconds / self.measurements if self.measurements else 0.0
        limit = rules.budget_measurements
        return max(arms * arm_s / rules.budget_s, 0.0 if limit is None else arms / limit)


def _kept_for_certifying(
    here: Plan, trials: Sequence[Trial], blocks: Sequence[Block], spent: _Spent, rules: Rules
) -> float:
    """The share of the budget that the search must leave.

    All of ``certify_share`` once there is something to certify. Before that only what shows a large
    effect, so that a search without a finalist in sight does not end with half its budget unspent.
    """
    if here.incumbent != BASELINE or _best_open(here, trials, blocks, rules) is not None:
        return rules.certify_share
    return min(rules.certify_share, spent.share(rules, arms=2 * _BLOCKS_FOR_LARGE_EFFECTS))


def _block(
    blocks: Sequence[Block], kind: BlockKind, race: int, trials: Sequence[int], rules: Rules
) -> RunBlock:
    """The next block: a fresh random order that follows from the campaign's seed and its number."""
    number = 1 + max((block.number for block in blocks), default=0)
    order = [BASELINE, *trials]
    random.Random(f"{rules.seed}:block:{number}").shuffle(order)
    return RunBlock(number, kind, race, tuple(order))


def _certification(
    here: Plan, trials: Sequence[Trial], blocks: Sequence[Block], rules: Rules, failed: set[int]
) -> Plan:
    fresh = [b for b in blocks if b.kind is BlockKind.CERTIFY and b.state is BlockState.COMPLETE]
    begun = next((b for b in blocks if b.kind is BlockKind.CERTIFY), None)
    if begun is not None:
        finalist = next((n for n in begun.order if n != BASELINE), None)
    else:
        finalist = (
            here.incumbent
            if here.incumbent != BASELINE
            else _best_open(here, trials, blocks, rules)
        )
    if blocks and not any(b.state is BlockState.COMPLETE for b in blocks):
        reason = f"not one block could be completed; the last one: {blocks[-1].reason}"
        return replace(here, step=Halt(reason))
    if finalist is None or finalist in failed:
        return replace(here, step=Finish(None, None), phase=Phase.DONE, live=())
    here = replace(here, phase=Phase.CERTIFY, live=(finalist,))
    pairs = [_pair(block, finalist, rules) for block in fresh]
    certificate = certify(
        pairs,
        rules.weights,
        floor=rules.race.floor,
        max_n=rules.certify_blocks,
        resolution_s=rules.race.resolution_s,
        components=rules.components,
    )
    here = replace(here, certificate=certificate)
    open_still = certificate.outcome is CertificateOutcome.UNDECIDED
    # Once a gain worth acting on is ruled out, more blocks cannot change the advice.
    worth_it = certificate.largest_compatible_improvement > rules.race.delta
    affordable = _Spent.of(blocks).allows(rules, arms=2) or len(fresh) < 3
    if open_still and worth_it and affordable:
        return replace(here, step=_block(blocks, BlockKind.CERTIFY, here.race, [finalist], rules))
    return replace(here, step=Finish(finalist, certificate), phase=Phase.DONE)


def _pair(block: Block, finalist: int, rules: Rules) -> PairedTimes:
    times = {m.trial: component_times(m, rules.components) for m in block.measurements}
    return PairedTimes(times[finalist], times[BASELINE])


def _best_open(
    here: Plan, trials: Sequence[Trial], blocks: Sequence[Block], rules: Rules
) -> int | None:
    """Without an incumbent: the trial not ruled out that looks fastest, if by delta or more.

    It may only look so by luck; the fresh blocks decide. Its estimate here is reported nowhere.
    """
    estimates = mean_differences(blocks, rules)
    candidates = [
        (estimates[t.number], t.number)
        for t in trials
        if t.number in estimates
        and t.number != BASELINE
        and (t.number not in here.endings or here.endings[t.number].state is TrialState.COMPLETE)
        and t.state is not TrialState.FAILED
    ]
    best = min(candidates, default=None)
    limit = -margin(rules.race.delta)
    return best[1] if best is not None and best[0] <= limit else None


def mean_differences(blocks: Sequence[Block], rules: Rules) -> dict[int, float]:
    """Mean log time ratio to the baseline of every trial, over its complete search blocks."""
    found: dict[int, list[float]] = {}
    for block in blocks:
        if block.kind is not BlockKind.SEARCH or block.state is not BlockState.COMPLETE:
            continue
        names = [m.trial for m in block.measurements]
        scores = log_scores(
            [component_times(m, rules.components) for m in block.measurements], rules.weights
        )
        base = scores[names.index(BASELINE)]
        for name, score in zip(names, scores, strict=True):
            if name != BASELINE:
                found.setdefault(name, []).append(float(score - base))
    return {name: fmean(values) for name, values in found.items()}
