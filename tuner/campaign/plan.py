"""The plan of a campaign: from everything measured so far to what is done next. Pure.

Owns the order of things: the pilot, races over proposals, finalists, certification on fresh
blocks, the answer. It replays the stored blocks through the judge, so that a campaign taken up
again reaches the same decisions from the same measurements.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tuner.campaign.batches import AnyBlock, again, batch, settled
from tuner.campaign.budget import Spent
from tuner.campaign.certifying import certification, finalists_begun, guards, guards_due
from tuner.campaign.piloting import PilotPlan, plan_pilot
from tuner.campaign.racing import Replay, advance
from tuner.campaign.rules import Rules
from tuner.campaign.scores import ScoreTable
from tuner.campaign.steps import Finish, Halt, Phase, Plan, Propose, RunBlock
from tuner.judge.score import margin
from tuner.model import BASELINE, Block, BlockKind, BlockTimes, Trial
from tuner.states import BlockState, TrialState

#: So many blocks of one run may go void one after another before the campaign stops.
MAX_VOID_IN_A_ROW = 4

#: Fresh blocks that certify an effect of a few times its noise (see judge/certify.py).
_BLOCKS_FOR_LARGE_EFFECTS = 5

_PHASES = {
    BlockKind.PILOT: Phase.PILOT,
    BlockKind.SEARCH: Phase.SEARCH,
    BlockKind.CERTIFY: Phase.CERTIFY,
}


class Planner:
    """Plans one campaign, step after step.

    It remembers what follows from the blocks so far (``table``), and nothing else: a new one, given
    the same rows, plans the same. ``rules`` may be tightened between steps (``max_trials``).
    """

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.table = ScoreTable(rules.components, rules.weights)
        self._replay = Replay()
        self._pilot: PilotPlan | None = None

    def plan(
        self,
        trials: Sequence[Trial],
        blocks: Sequence[Block | BlockTimes],
        *,
        earlier_blocks: int = 0,
    ) -> Plan:
        """What to do next; see ``plan``. ``blocks`` must begin with those of the last call."""
        failed = {t.number for t in trials if t.state in (TrialState.FAILED, TrialState.CANCELLED)}
        return self._plan(trials, blocks, failed, earlier_blocks)

    def plan_batch(
        self,
        trials: Sequence[Trial],
        blocks: Sequence[AnyBlock],
        *,
        testbeds: int,
        earlier_blocks: int = 0,
    ) -> Plan:
        """What to do next on so many testbeds at once: ``plan``, with RunBatch for RunBlock."""
        failed = {t.number for t in trials if t.state in (TrialState.FAILED, TrialState.CANCELLED)}
        known, missing = settled(blocks, failed)
        now = self._plan(trials, known, failed, len(known))
        most = MAX_VOID_IN_A_ROW * self.rules.testbeds
        if (reason := _void_reason(blocks[earlier_blocks:], most)) is not None:
            return replace(now, step=Halt(reason))
        if missing:
            phase = _PHASES[missing[0].kind]
            number = blocks[-1].number + 1
            return replace(now, step=again(missing, self.rules, number, testbeds), phase=phase)
        if isinstance(now.step, RunBlock):
            step = batch(now.step, now.incumbent, known, self.rules, testbeds)
            return replace(now, step=step)
        return now

    def _plan(
        self,
        trials: Sequence[Trial],
        blocks: Sequence[Block | BlockTimes],
        failed: set[int],
        earlier_blocks: int,
    ) -> Plan:
        table = self.table
        table.extend(blocks[len(table.ended) :])
        advance(self._replay, trials, table, self.rules, failed)
        if self._pilot is None or self._pilot.more:
            self._pilot = plan_pilot(trials, table.ended, self.rules.pilot)
        # A pilot that was over once stays so, and need not be judged again.
        return _next(self._replay, self._pilot, trials, table, self.rules, failed, earlier_blocks)


def plan(
    trials: Sequence[Trial],
    blocks: Sequence[Block | BlockTimes],
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
    table: ScoreTable,
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
    if (reason := _void_reason(table.ended[earlier_blocks:])) is not None:
        return replace(here, step=Halt(reason))
    here = replace(here, pilot=pilot.found)
    if pilot.more and pilot.twin is not None:
        step = _block(table, BlockKind.PILOT, 0, (pilot.twin,), rules)
        return replace(here, step=step, phase=Phase.PILOT, live=(pilot.twin,))
    if race == 0 and pilot.refused is not None and not rules.pilot_override:
        advice = "; to go on all the same, resume with --override-pilot"
        return replace(here, step=Halt(f"the pilot advises against: {pilot.refused}{advice}"))
    if guards_due(table, rules.testbeds):
        here = replace(here, guards=guards(table))
    if not finalists_begun(table):
        spent = Spent.of(table)
        kept = _kept_for_certifying(here, trials, table, spent, rules)
        at_once = rules.testbeds
        if contenders and spent.allows(rules, arms=at_once * (1 + len(live)), kept=kept):
            return replace(here, step=_block(table, BlockKind.SEARCH, race, live, rules))
        most = 0 if contenders else min(rules.trials_per_race, _trials_left(trials, rules))
        least_blocks = -(-rules.race.min_blocks // at_once) * at_once
        # What is left of a small budget is for a smaller race.
        for wanted in range(most, 0, -1):
            arms = (1 + len(incumbent) + wanted) * least_blocks
            if spent.allows(rules, arms=arms, kept=kept):
                return replace(here, step=Propose(race + 1, wanted))
    return _ending(here, trials, table, rules, failed)


def _ending(
    here: Plan, trials: Sequence[Trial], table: ScoreTable, rules: Rules, failed: set[int]
) -> Plan:
    """Certify the finalists, if there are any, and finish."""
    if table.ended and not table.scored:
        reason = f"not one block could be completed; the last one: {table.ended[-1].reason}"
        return replace(here, step=Halt(reason))
    finalists = finalists_begun(table) or _finalists(here, trials, table, rules)
    if not finalists or failed.issuperset(finalists):
        return replace(here, step=Finish(None, None), phase=Phase.DONE, live=())
    stands = certification(finalists, table, rules, here.guards or guards(table), failed)
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
    arms = rules.testbeds * (1 + len(stands.open))
    if stands.open and (few or Spent.of(table).allows(rules, arms=arms)):
        return replace(here, step=_block(table, BlockKind.CERTIFY, here.race, stands.open, rules))
    others = {f: c for f, c in stands.certificates.items() if f != best}
    return replace(here, step=Finish(best, certificate, others), phase=Phase.DONE)


def _void_reason(blocks: Sequence[Block | BlockTimes], most: int = MAX_VOID_IN_A_ROW) -> str | None:
    newest = blocks[-most:]
    if len(newest) < most or any(b.state is not BlockState.VOID for b in newest):
        return None
    return f"{most} blocks in a row went void; the last one: {newest[-1].reason}"


def _trials_left(trials: Sequence[Trial], rules: Rules) -> int:
    if rules.max_trials is None:
        return rules.trials_per_race
    return rules.max_trials - sum(trial.race > 0 for trial in trials)


def _kept_for_certifying(
    here: Plan, trials: Sequence[Trial], table: ScoreTable, spent: Spent, rules: Rules
) -> float:
    """The share of the budget that the search must leave.

    All of ``certify_share`` once there is something to certify. Before that only what shows a large
    effect, so that a search without a finalist in sight does not end with half its budget unspent.
    """
    if _finalists(here, trials, table, rules):
        return rules.certify_share
    return min(rules.certify_share, spent.share(rules, arms=2 * _BLOCKS_FOR_LARGE_EFFECTS))


def _block(
    table: ScoreTable, kind: BlockKind, race: int, trials: Sequence[int], rules: Rules
) -> RunBlock:
    return RunBlock.shuffled(rules.seed, table.newest + 1, kind, race, trials)


def _finalists(
    here: Plan, trials: Sequence[Trial], table: ScoreTable, rules: Rules
) -> tuple[int, ...]:
    """The trials worth certifying, at most so many: the incumbent, then those not ruled out that
    look fastest, if by delta or more.

    They may only look so by luck; the fresh blocks decide. Their estimates here are reported
    nowhere.
    """
    incumbent = () if here.incumbent == BASELINE else (here.incumbent,)
    estimates = table.means()
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
