"""How a campaign stands, for those who watch: from its rows and its plan to a record to draw.
Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tuner.campaign.budget import Spent
from tuner.campaign.comparing import estimate
from tuner.campaign.rules import Rules
from tuner.campaign.steps import Phase, Plan
from tuner.campaign.times import differences
from tuner.model import BASELINE, Block, BlockKind, Configuration, Trial
from tuner.report.drawing import Estimate
from tuner.report.observer import DroppedTrial, LiveTrial, Standing
from tuner.report.words import changes
from tuner.states import TrialState


def against_baseline(
    blocks: Sequence[Block], rules: Rules, kind: BlockKind
) -> dict[int, tuple[Estimate, int]]:
    """For every trial its time ratio to the baseline with interval, and the number of blocks behind
    it.
    """
    pairs = differences(blocks, rules.components, rules.weights, kind)
    most = rules.certify_blocks if kind is BlockKind.CERTIFY else rules.race.max_blocks
    found: dict[int, tuple[Estimate, int]] = {}
    for trial, values in pairs.items():
        found[trial] = (estimate(values, most), len(values))
    return found


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
    spent = Spent.of(blocks)
    budget_s = rules.budget_s
    if kind is BlockKind.CERTIFY and blocks:
        fresh = sum(b.kind is BlockKind.CERTIFY for b in blocks)
        block_s = (1 + max(1, len(plan.live))) * spent.seconds_an_arm
        budget_s = min(budget_s, spent.seconds + block_s * (rules.certify_blocks - fresh))
    rows = [_row(t, plan, estimates, trials[BASELINE].configuration) for t in _shown(trials, plan)]
    dropped = [
        DroppedTrial(t.number, t.reason)
        for t in reversed(trials)
        if t.state in (TrialState.PRUNED, TrialState.FAILED)
    ]
    return Standing(
        race=plan.race,
        block=blocks[-1].number if blocks else 0,
        expected_blocks=None,
        measurements=spent.measurements,
        budget=rules.budget_measurements or _expected(spent, rules.budget_s),
        elapsed_s=elapsed_s,
        expected_left_s=max(0.0, (budget_s - spent.seconds) * overhead) if blocks else None,
        kind=kind,
        rows=tuple(rows),
        dropped=tuple(dropped[:5]),
    )


def _expected(spent: Spent, budget_s: float) -> int:
    if spent.seconds <= 0.0:
        return 0
    return max(spent.measurements, round(spent.measurements * budget_s / spent.seconds))


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
    known, count = estimates.get(trial.number, (None, 0))
    states = {Phase.PILOT: "twin", Phase.SEARCH: "racing"}
    state = states.get(plan.phase, "finalist")
    if trial.number == BASELINE:
        state = "reference"
    elif trial.number == plan.incumbent and plan.phase is Phase.SEARCH:
        state = "incumbent"
    told = changes(baseline, trial.configuration)
    return LiveTrial(trial.number, trial.origin, state, count, told, known)
