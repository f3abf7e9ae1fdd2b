"""How a campaign stands, for those who watch: from its rows and its plan to a record to draw.
Pure.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from tuner.campaign.rules import Rules
from tuner.campaign.steps import Phase, Plan
from tuner.campaign.times import component_times
from tuner.judge.confidence import bounds
from tuner.judge.evalue import moments
from tuner.judge.score import log_scores
from tuner.judge.thresholds import threshold
from tuner.model import BASELINE, Block, BlockKind, Configuration, Trial
from tuner.report.drawing import Estimate
from tuner.report.observer import DroppedTrial, LiveTrial, Standing
from tuner.report.words import changes
from tuner.states import BlockState, TrialState

_ALPHA = 0.025  # each end of the intervals shown: 95 %


def against_baseline(
    blocks: Sequence[Block], rules: Rules, kind: BlockKind
) -> dict[int, tuple[Estimate, int]]:
    """For every trial its time ratio to the baseline with interval, and the number of blocks behind
    it.
    """
    pairs: dict[int, list[float]] = {}
    for block in blocks:
        if block.kind is not kind or block.state is not BlockState.COMPLETE:
            continue
        times = {m.trial: component_times(m, rules.components) for m in block.measurements}
        scores = log_scores(list(times.values()), rules.weights)
        of = dict(zip(times, scores.tolist(), strict=True))
        for trial in of.keys() - {BASELINE}:
            pairs.setdefault(trial, []).append(of[trial] - of[BASELINE])
    most = rules.certify_blocks if kind is BlockKind.CERTIFY else rules.race.max_blocks
    found: dict[int, tuple[Estimate, int]] = {}
    for trial, differences in pairs.items():
        m = moments(np.asarray(differences))
        level = threshold(_ALPHA, most if len(differences) <= most else None)
        low, high = bounds(m, level)
        estimate = Estimate(math.exp(float(m.mean)), _exp(float(low)), _exp(float(high)))
        found[trial] = (estimate, len(differences))
    return found


def _exp(value: float) -> float:
    return math.inf if value > 700.0 else math.exp(value)


def standing(
    trials: Sequence[Trial],
    blocks: Sequence[Block],
    plan: Plan,
    rules: Rules,
    elapsed_s: float,
    overhead: float,
) -> Standing:
    """Where the campaign stands. ``elapsed_s``: wall time of its runs; ``overhead``: wall time per
    second of measuring time so far, for the expectation."""
    certifying = plan.phase is Phase.CERTIFY or any(b.kind is BlockKind.CERTIFY for b in blocks)
    kind = BlockKind.CERTIFY if certifying else BlockKind.SEARCH
    if plan.phase is Phase.PILOT:
        kind = BlockKind.PILOT
    estimates = against_baseline(blocks, rules, kind)
    spent_s = sum(block.duration_s for block in blocks)
    budget_s = rules.budget_s
    if kind is BlockKind.CERTIFY and blocks:
        fresh = sum(b.kind is BlockKind.CERTIFY for b in blocks)
        block_s = 2.0 * spent_s / max(1, sum(len(b.measurements) for b in blocks))
        budget_s = min(budget_s, spent_s + block_s * (rules.certify_blocks - fresh))
    rows = [_row(t, plan, estimates, trials[BASELINE].configuration) for t in _shown(trials, plan)]
    dropped = [
        DroppedTrial(t.number, t.reason)
        for t in reversed(trials)
        if t.state in (TrialState.PRUNED, TrialState.FAILED)
    ]
    measured = sum(len(block.measurements) for block in blocks)
    return Standing(
        race=plan.race,
        block=blocks[-1].number if blocks else 0,
        expected_blocks=None,
        measurements=measured,
        budget=rules.budget_measurements or _expected(measured, spent_s, rules.budget_s),
        elapsed_s=elapsed_s,
        expected_left_s=max(0.0, (budget_s - spent_s) * overhead) if blocks else None,
        kind=kind,
        rows=tuple(rows),
        dropped=tuple(dropped[:5]),
    )


def _expected(measured: int, spent_s: float, budget_s: float) -> int:
    return max(measured, round(measured * budget_s / spent_s)) if spent_s > 0.0 else 0


def _shown(trials: Sequence[Trial], plan: Plan) -> list[Trial]:
    """The baseline, the incumbent, then the others in the race."""
    first = [BASELINE] if plan.incumbent == BASELINE else [BASELINE, plan.incumbent]
    others = [number for number in plan.live if number not in first]
    return [trials[number] for number in (*first, *others) if number < len(trials)]


def _row(
    trial: Trial,
    plan: Plan,
    estimates: Mapping[int, tuple[Estimate, int]],
    baseline: Configuration,
) -> LiveTrial:
    estimate, count = estimates.get(trial.number, (None, 0))
    states = {Phase.PILOT: "twin", Phase.SEARCH: "racing"}
    state = states.get(plan.phase, "finalist")
    if trial.number == BASELINE:
        state = "reference"
    elif trial.number == plan.incumbent and plan.phase is Phase.SEARCH:
        state = "incumbent"
    told = changes(baseline, trial.configuration)
    return LiveTrial(trial.number, trial.origin, state, count, told, estimate)
