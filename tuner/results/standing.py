"""The standing of a campaign, derived from its rows and plan, as a record to display."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from itertools import islice

from tuner.model import BASELINE, BlockKind, Configuration, Trial
from tuner.plan.budget import Cost
from tuner.plan.rules import Rules
from tuner.plan.scores import ScoreTable
from tuner.plan.steps import Phase, Plan
from tuner.records.differences import changes
from tuner.records.estimate import NORMAL_95, Estimate
from tuner.records.standing import Candidate, DroppedTrial, LiveTrial, Standing, state_word
from tuner.results.reference_comparison import estimates
from tuner.states import TrialState
from tuner.store import Store
from tuner.time_use import TimeUse

_MOST_DROPPED = 5
#: Any later phase is about finalists.
_KINDS = {Phase.PILOT: BlockKind.PILOT, Phase.SEARCH: BlockKind.SEARCH}


def against_baseline(
    table: ScoreTable, rules: Rules, kind: BlockKind, trials: Collection[int] | None = None
) -> dict[int, tuple[Estimate, int]]:
    """Return, for every trial or those given, its time ratio to the baseline with interval, and the
    number of blocks of ``kind`` behind it.
    """
    pairs = table.pairs(kind)
    most = rules.certify_blocks if kind is BlockKind.CERTIFY else rules.race.max_blocks
    numbers = list(pairs) if trials is None else [trial for trial in trials if trial in pairs]
    values = [pairs[trial] for trial in numbers]
    rows = zip(numbers, estimates(values, most), values, strict=True)
    return {trial: (estimate, len(of)) for trial, estimate, of in rows}


def standing(
    trials: Sequence[Trial],
    table: ScoreTable,
    plan: Plan,
    rules: Rules,
    use: TimeUse,
) -> Standing:
    """Return the standing of the campaign. ``use``: the time use of its runs."""
    kind = BlockKind.CERTIFY if plan.phase is Phase.CERTIFY else BlockKind.SEARCH
    if plan.phase is Phase.PILOT:
        kind = BlockKind.PILOT
    visible = _visible_trials(trials, plan)
    estimates = against_baseline(table, rules, kind, [trial.number for trial in visible])
    cost = Cost.of(table)
    remaining_s = cost.left_s(use, rules)
    expected, estimated = _expected(cost, rules)
    blocks = sum(one.block.kind is kind for one in table.scored)
    rows = [_row(t, plan, estimates, trials[BASELINE].configuration, blocks) for t in visible]
    dropped = (
        DroppedTrial(t.number, t.reason)
        for t in reversed(trials)
        if t.state in (TrialState.PRUNED, TrialState.FAILED)
    )
    return Standing(
        block=table.ended_blocks[-1].number if table.ended_blocks else 0,
        measurements=cost.measurements,
        budget=expected,
        elapsed_s=use.wall_s,
        expected_left_s=remaining_s,
        kind=kind,
        rows=tuple(rows),
        best=_best(plan, trials),
        certified=None if plan.answer is None else plan.answer.finalist,
        estimated=estimated,
        dropped=tuple(islice(dropped, _MOST_DROPPED)),
    )


def stored_standing(store: Store, campaign: str, plan: Plan, rules: Rules) -> Standing:
    """Return the standing of a stored campaign. ``plan``: its last one."""
    blocks = store.block_times(campaign, rules.components, with_covariates=False)
    table = ScoreTable(rules.components, rules.weights, keep_times=False)
    table.extend(blocks)
    use = store.campaign(campaign).time_use
    return standing(store.trials(campaign), table, plan, rules, use)


def _best(plan: Plan, trials: Sequence[Trial]) -> Candidate | None:
    if plan.best is None:
        return None
    gain, reach = plan.best.gain, NORMAL_95 * plan.best.error
    estimate = Estimate(math.exp(-gain), math.exp(-gain - reach), math.exp(reach - gain))
    configuration = plan.best.configuration
    return Candidate(
        configuration, changes(trials[BASELINE].configuration, configuration), estimate
    )


def _expected(cost: Cost, rules: Rules) -> tuple[int | None, bool]:
    """How many measurements there will be, and whether that is an estimate: the budget's number,
    or else what its time allows at the pace so far and a comparison needs. None while unknown.
    """
    most = rules.most_measurements
    if most is not None and most == rules.budget_measurements:
        return most, False
    total = cost.measurements + cost.arms_left(rules)
    total = min(total, math.inf if most is None else most)
    return None if math.isinf(total) else round(total), True


def _visible_trials(trials: Sequence[Trial], plan: Plan) -> list[Trial]:
    """The baseline, the incumbent, then the other live trials."""
    first = [BASELINE] if plan.incumbent == BASELINE else [BASELINE, plan.incumbent]
    others = [number for number in plan.live if number not in first]
    return [trials[number] for number in (*first, *others) if number < len(trials)]


def _row(
    trial: Trial,
    plan: Plan,
    estimates: Mapping[int, tuple[Estimate, int]],
    baseline: Configuration,
    blocks: int,
) -> LiveTrial:
    """The row of a trial. ``blocks``: complete ones, each of which measured the baseline."""
    is_baseline = trial.number == BASELINE
    estimate, count = estimates.get(trial.number, (None, blocks if is_baseline else 0))
    kind = _KINDS.get(plan.phase, BlockKind.CERTIFY)
    state = state_word(trial.number, kind, plan.incumbent)
    difference = changes(baseline, trial.configuration)
    return LiveTrial(trial.number, trial.origin, state, count, difference, estimate)
