"""How a campaign stands, for those who watch: from its rows and its plan to a record to draw.
Pure.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from itertools import islice

from tuner.campaign.budget import Spent
from tuner.campaign.comparing import estimates
from tuner.campaign.rules import Rules
from tuner.campaign.scores import ScoreTable
from tuner.campaign.steps import Phase, Plan
from tuner.model import BASELINE, BlockKind, Configuration, TimeUse, Trial
from tuner.records.differences import changes
from tuner.records.estimate import Estimate
from tuner.records.standing import Candidate, DroppedTrial, LiveTrial, Standing
from tuner.states import TrialState

_DROPPED_SHOWN = 5
#: Standard deviations on each side of the mean that hold 95% of a normal distribution.
_NORMAL_95 = 1.96


def against_baseline(
    table: ScoreTable, rules: Rules, kind: BlockKind, trials: Collection[int] | None = None
) -> dict[int, tuple[Estimate, int]]:
    """For every trial, or these, its time ratio to the baseline with interval, and the number of
    blocks of ``kind`` behind it.
    """
    pairs = table.pairs(kind)
    most = rules.certify_blocks if kind is BlockKind.CERTIFY else rules.race.max_blocks
    wanted = list(pairs) if trials is None else [trial for trial in trials if trial in pairs]
    values = [pairs[trial] for trial in wanted]
    known = zip(wanted, estimates(values, most), values, strict=True)
    return {trial: (estimate, len(of)) for trial, estimate, of in known}


def standing(
    trials: Sequence[Trial],
    table: ScoreTable,
    plan: Plan,
    rules: Rules,
    use: TimeUse,
) -> Standing:
    """Where the campaign stands. ``use``: the wall time of its runs."""
    kind = BlockKind.CERTIFY if plan.phase is Phase.CERTIFY else BlockKind.SEARCH
    if plan.phase is Phase.PILOT:
        kind = BlockKind.PILOT
    shown = _shown(trials, plan)
    estimates = against_baseline(table, rules, kind, [trial.number for trial in shown])
    spent = Spent.of(table)
    left_s = spent.left_s(use, rules)
    rows = [
        _row(t, plan, estimates, trials[BASELINE].configuration)
        if t.number != BASELINE
        else _baseline_row(t, sum(one.block.kind is kind for one in table.scored))
        for t in shown
    ]
    dropped = (
        DroppedTrial(t.number, t.reason)
        for t in reversed(trials)
        if t.state in (TrialState.PRUNED, TrialState.FAILED)
    )
    return Standing(
        race=plan.race,
        block=table.ended[-1].number if table.ended else 0,
        expected_blocks=None,
        measurements=spent.measurements,
        budget=rules.budget_measurements or _expected(spent, rules.budget_s),
        elapsed_s=use.wall_s,
        expected_left_s=left_s,
        kind=kind,
        rows=tuple(rows),
        best=_best(plan, trials),
        certified=None if plan.answer is None else plan.answer.finalist,
        estimated=rules.budget_measurements is None,
        dropped=tuple(islice(dropped, _DROPPED_SHOWN)),
    )


def _best(plan: Plan, trials: Sequence[Trial]) -> Candidate | None:
    if plan.best is None:
        return None
    gain, reach = plan.best.gain, _NORMAL_95 * plan.best.error
    estimate = Estimate(math.exp(-gain), math.exp(-gain - reach), math.exp(reach - gain))
    found = plan.best.configuration
    return Candidate(found, changes(trials[BASELINE].configuration, found), estimate)


def _expected(spent: Spent, budget_s: float) -> int | None:
    """How many measurements the budget allows at the pace so far; None before the first one."""
    if spent.measurements == 0 or spent.seconds <= 0.0:
        return None
    return max(spent.measurements, round(spent.measurements * budget_s / spent.seconds))


def _shown(trials: Sequence[Trial], plan: Plan) -> list[Trial]:
    """The baseline, the incumbent, then the others in the race."""
    first = [BASELINE] if plan.incumbent == BASELINE else [BASELINE, plan.incumbent]
    others = [number for number in plan.live if number not in first]
    return [trials[number] for number in (*first, *others) if number < len(trials)]


def _baseline_row(baseline: Trial, blocks: int) -> LiveTrial:
    """What all others are compared with: in so many blocks."""
    return LiveTrial(BASELINE, baseline.origin, "reference", blocks, "")


def _row(
    trial: Trial,
    plan: Plan,
    estimates: Mapping[int, tuple[Estimate, int]],
    baseline: Configuration,
) -> LiveTrial:
    known, count = estimates.get(trial.number, (None, 0))
    states = {Phase.PILOT: "twin", Phase.SEARCH: "searched"}
    state = states.get(plan.phase, "finalist")
    if trial.number == plan.incumbent and plan.phase is Phase.SEARCH:
        state = "incumbent"
    told = changes(baseline, trial.configuration)
    return LiveTrial(trial.number, trial.origin, state, count, told, known)
