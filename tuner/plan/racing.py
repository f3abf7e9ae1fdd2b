"""Which trials are out of the search and which one leads: the judge's decision on each. Pure.

After each block that measured it, every trial of the search is tested against the baseline on all
its pairs so far. A dropped trial stays out. One that is merely not measured again is set aside, and
may come back.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from tuner.judge.race import Action, Decision, decide
from tuner.model import BASELINE, BlockKind, BlockTimes, Trial
from tuner.plan.rules import Rules
from tuner.plan.scores import ScoreTable
from tuner.plan.steps import Ending
from tuner.states import VERDICT_STATES, BlockState, TrialState


@dataclass(slots=True)
class Replay:
    """The judge's decisions up to the blocks replayed so far.

    ``endings``: of every trial that the judge has ended. ``decisions``: of the newest block.
    ``promoted``: the trials that were shown to be faster than the baseline.
    """

    endings: dict[int, Ending] = field(default_factory=dict)
    decisions: tuple[Decision, ...] = ()
    promoted: set[int] = field(default_factory=set)
    replayed: int = 0

    def incumbent(self, table: ScoreTable, failed: Collection[int]) -> int:
        """The promoted trial still in the search that looks fastest, otherwise the baseline."""
        means = table.means()
        candidates = [n for n in self.promoted if n not in self.endings and n not in failed]
        return min(candidates, key=lambda number: (means[number], number), default=BASELINE)


def advance(
    replay: Replay,
    trials: Sequence[Trial],
    table: ScoreTable,
    rules: Rules,
    failed: Collection[int],
) -> None:
    """Judge the trials in the blocks added since the last call.

    In the first call, stored endings are adopted, and every other trial is judged by all of its
    measurements: an earlier ending would have been stored.
    """
    new = table.ended_blocks[replay.replayed :]
    if not new:
        return
    if not replay.replayed:
        replay.endings = {
            t.number: Ending(t.state, t.reason)
            for t in trials
            if t.state in VERDICT_STATES and t.round > 0
        }
        rounds = [{n for block in new if _counts(block) for n in block.times_s}]
    else:
        rounds = [set(block.times_s) for block in new if _counts(block)]
    for arms in rounds:
        live = sorted(arms - {BASELINE} - replay.endings.keys() - set(failed))
        replay.decisions = tuple(_decide(number, table, rules) for number in live)
        for decision in replay.decisions:
            _follow(replay, decision, rules)
    replay.replayed = len(table.ended_blocks)


def _counts(block: BlockTimes) -> bool:
    return block.kind is BlockKind.SEARCH and block.state is BlockState.COMPLETE


def _decide(number: int, table: ScoreTable, rules: Rules) -> Decision:
    return decide(number, table.logs(number), rules.race, rules.weights, rules.components)


def _follow(replay: Replay, decision: Decision, rules: Rules) -> None:
    trial = decision.trial
    # Whoever begins with all blocks knows only the last decision on a trial.
    replay.promoted.discard(trial)
    match decision.action:
        case Action.PROMOTE:
            replay.promoted.add(trial)
        case Action.EQUIVALENT:
            replay.endings[trial] = Ending(TrialState.COMPLETE, decision.reason)
        case Action.PRUNE:
            out_of_blocks = decision.verdict.n >= rules.race.max_blocks
            state = TrialState.COMPLETE if out_of_blocks else TrialState.PRUNED
            replay.endings[trial] = Ending(state, decision.reason)
        case Action.KEEP:
            pass
