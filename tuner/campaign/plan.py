"""The plan of a campaign: from everything measured so far to what is done next. Pure.

Owns the order of things: the pilot, races over proposals, finalists, certification on fresh
blocks, the answer. It replays the stored blocks through the judge, so that a campaign taken up
again reaches the same decisions from the same measurements.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from tuner.campaign.budget import Spent
from tuner.campaign.certifying import certification, finalists_begun, guards
from tuner.campaign.piloting import PilotPlan, plan_pilot
from tuner.campaign.racing import Replay, advance
from tuner.campaign.rules import Rules
from tuner.campaign.steps import Finish, Halt, Phase, Plan, Propose, RunBlock
from tuner.campaign.times import mean_differences
from tuner.judge.score import margin
from tuner.model import BASELINE, Block, BlockKind, Trial
from tuner.states import BlockState, TrialState

#: So many blocks of one run may go void one after another before the campaign stops.
MAX_VOID_IN_A_ROW = 4

#: Fresh blocks that certify an effect of a few times its noise (see judge/certify.py).
_BLOCKS_FOR_LARGE_EFFECTS = 5


class Planner:
    """Plans one campaign, step after step.

    It remembers how far it has replayed the blocks, and nothing else: a new one, given the same
    rows, plans the same. ``rules`` may be tightened between steps (``max_trials``).
    """

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self._replay = Replay()
        self._pilot: PilotPlan | None = None

    def plan(
        self, trials: Sequence[Trial], blocks: Sequence[Block], *, earlier_blocks: int = 0
    ) -> Plan:
        """What to do next; see ``plan``. ``blocks`` must begin with those of the last call."""
        failed = {t.number for t in trials if t.state in (TrialState.FAILED, TrialState.CANCELLED)}
        advance(self._replay, trials, blocks, self.rules, failed)
        if self._pilot is None or self._pilot.more:
            self._pilot = plan_pilot(trials, blocks, self.rules.pilot)
        # A pilot that was over once stays so, and need not be judged again.
        return _next(self._replay, self._pilot, trials, blocks, self.rules, failed, earlier_blocks)


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
    replay: Replay,
    pilot: PilotPlan,
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
        if t.race == race > 0
        and t.number != replay.incumbent
        and t.number not in failed
        and t.number not in replay.endings
    )
    live = (*incumbent, *contenders)
    endings = dict(replay.endings)
    here = Plan(Halt(""), Phase.SEARCH, race, replay.incumbent, live, endings, replay.decisions)
    if (reason := _void_reason(blocks[earlier_blocks:])) is not None:
        return replace(here, step=Halt(reason))
    here = replace(here, pilot=pilot.found)
    if pilot.more and pilot.twin is not None:
        step = _block(blocks, BlockKind.PILOT, 0, (pilot.twin,), rules)
        return replace(here, step=step, phase=Phase.PILOT, live=(pilot.twin,))
    if race == 0 and pilot.refused is not None and not rules.pilot_override:
        advice = "; to go on all the same, resume with --override-pilot"
        return replace(here, step=Halt(f"the pilot advises against: {pilot.refused}{advice}"))
    here = replace(here, guards=guards(blocks, rules))
    if not finalists_begun(blocks):
        spent = Spent.of(blocks)
        kept = _kept_for_certifying(here, trials, blocks, spent, rules)
        if contenders and spent.allows(rules, arms=1 + len(live), kept=kept):
            return replace(here, step=_block(blocks, BlockKind.SEARCH, race, live, rules))
        wanted = min(rules.trials_per_race, _trials_left(trials, rules))
        arms = (1 + len(incumbent) + wanted) * rules.race.min_blocks
        if not contenders and wanted > 0 and spent.allows(rules, arms=arms, kept=kept):
            return replace(here, step=Propose(race + 1, wanted))
    return _ending(here, trials, blocks, rules, failed)


def _ending(
    here: Plan, trials: Sequence[Trial], blocks: Sequence[Block], rules: Rules, failed: set[int]
) -> Plan:
    """Certify the finalists, if there are any, and finish."""
    if blocks and not any(b.state is BlockState.COMPLETE for b in blocks):
        reason = f"not one block could be completed; the last one: {blocks[-1].reason}"
        return replace(here, step=Halt(reason))
    finalists = finalists_begun(blocks) or _finalists(here, trials, blocks, rules)
    if not finalists or failed.issuperset(finalists):
        return replace(here, step=Finish(None, None), phase=Phase.DONE, live=())
    stands = certification(finalists, blocks, rules, here.guards, failed)
    best = stands.best
    assert best is not None  # not all have failed
    certificate = stands.certificates[best]
    here = replace(
        here,
        phase=Phase.CERTIFY,
        live=stands.open,
        certificate=certificate,
        guards=stands.guards,
    )
    few = any(stands.certificates[f].verdict.n < rules.race.min_blocks for f in stands.open)
    arms = 1 + len(stands.open)
    if stands.open and (few or Spent.of(blocks).allows(rules, arms=arms)):
        return replace(here, step=_block(blocks, BlockKind.CERTIFY, here.race, stands.open, rules))
    others = {f: c for f, c in stands.certificates.items() if f != best}
    return replace(here, step=Finish(best, certificate, others), phase=Phase.DONE)


def _void_reason(blocks: Sequence[Block]) -> str | None:
    newest = blocks[-MAX_VOID_IN_A_ROW:]
    if len(newest) < MAX_VOID_IN_A_ROW or any(b.state is not BlockState.VOID for b in newest):
        return None
    return f"{MAX_VOID_IN_A_ROW} blocks in a row went void; the last one: {newest[-1].reason}"


def _trials_left(trials: Sequence[Trial], rules: Rules) -> int:
    if rules.max_trials is None:
        return rules.trials_per_race
    return rules.max_trials - sum(trial.race > 0 for trial in trials)


def _kept_for_certifying(
    here: Plan, trials: Sequence[Trial], blocks: Sequence[Block], spent: Spent, rules: Rules
) -> float:
    """The share of the budget that the search must leave.

    All of ``certify_share`` once there is something to certify. Before that only what shows a large
    effect, so that a search without a finalist in sight does not end with half its budget unspent.
    """
    if _finalists(here, trials, blocks, rules):
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


def _finalists(
    here: Plan, trials: Sequence[Trial], blocks: Sequence[Block], rules: Rules
) -> tuple[int, ...]:
    """The trials worth certifying, at most so many: the incumbent, then those not ruled out that
    look fastest, if by delta or more.

    They may only look so by luck; the fresh blocks decide. Their estimates here are reported
    nowhere.
    """
    incumbent = () if here.incumbent == BASELINE else (here.incumbent,)
    estimates = mean_differences(blocks, rules.components, rules.weights)
    looks_fast = sorted(
        (estimates[t.number], t.number)
        for t in trials
        if t.number in estimates
        and t.number != here.incumbent
        and estimates[t.number] <= -margin(rules.race.delta)
        and (t.number not in here.endings or here.endings[t.number].state is TrialState.COMPLETE)
        and t.state is not TrialState.FAILED
    )
    return (*incumbent, *(number for _, number in looks_fast))[: rules.finalists]
