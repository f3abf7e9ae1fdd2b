"""The races of a campaign, replayed from its stored blocks. Pure.

Races that are over are not run again: their trials have ended as it is stored with them, and the
incumbent that they left is in the first block of the race that follows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tuner.campaign.rules import Rules
from tuner.campaign.scores import ScoreTable
from tuner.campaign.steps import Ending
from tuner.judge.race import Action, Decision, RaceTable, decide_on
from tuner.model import BASELINE, BlockKind, BlockTimes, Trial
from tuner.states import BlockState, TrialState

_ENDED = (TrialState.PRUNED, TrialState.COMPLETE)


@dataclass(slots=True)
class Replay:
    """The race as it stands after the blocks replayed so far.

    ``in_force``: the incumbent before each complete block of the search since the first replayed,
    by its place in the table.
    """

    incumbent: int = BASELINE
    endings: dict[int, Ending] = field(default_factory=dict)
    decisions: tuple[Decision, ...] = ()
    replayed: int = 0
    in_force: dict[int, int] = field(default_factory=dict)
    complete: int = 0


def advance(
    replay: Replay,
    trials: Sequence[Trial],
    table: ScoreTable,
    rules: Rules,
    failed: set[int],
) -> None:
    """Replay the blocks that are new since the last time."""
    if replay.replayed == len(table.ended):
        return
    by_race: dict[int, list[int]] = {}
    for trial in trials:
        by_race.setdefault(trial.race, []).append(trial.number)
    if not replay.replayed:
        _skip(replay, trials, table)
    # A trial fails in the last block that it is part of; until then it raced like any other.
    left = {number: table.last_block.get(number, 0) for number in failed}
    for block in table.ended[replay.replayed :]:
        if left.get(replay.incumbent, block.number + 1) <= block.number:
            replay.incumbent = BASELINE
        place = replay.complete
        replay.complete += block.state is BlockState.COMPLETE
        if block.kind is not BlockKind.SEARCH or block.state is not BlockState.COMPLETE:
            continue
        replay.in_force[place] = replay.incumbent
        live = {
            number
            for number in by_race.get(block.race, ())
            if number in block.times_s
            and number not in replay.endings
            and left.get(number, block.number + 1) > block.number
        }
        if replay.incumbent != BASELINE:
            live.add(replay.incumbent)
        live.discard(BASELINE)
        replay.decisions = _decide(replay, live, place, table, rules)
        for decision in replay.decisions:
            _follow(replay, decision, rules)
    replay.replayed = len(table.ended)


def _decide(
    replay: Replay, live: set[int], place: int, table: ScoreTable, rules: Rules
) -> tuple[Decision, ...]:
    """What the judge says after the block at ``place``: of blocks with a live trial, since only
    those can say anything of them.
    """
    rows = (BASELINE, *sorted(live))
    logs, places = table.logs(rows, until=place)
    # Nobody who is live, but the incumbent, was in a block before the first that was replayed.
    in_force = [replay.in_force.get(at, replay.incumbent) for at in places.tolist()]
    state = RaceTable(
        rows,
        logs,
        np.array(in_force, dtype=np.int64),
        replay.incumbent,
        rules.weights,
        rules.components,
    )
    return decide_on(state, rules.race)


def _skip(replay: Replay, trials: Sequence[Trial], table: ScoreTable) -> None:
    """Begin with the last race, or the first in which a trial is still open."""
    firsts: dict[int, tuple[int, int]] = {}
    complete = 0
    last = 0
    for place, block in enumerate(table.ended):
        if block.kind is BlockKind.SEARCH:
            firsts.setdefault(block.race, (place, complete))
            last = block.race if block.state is BlockState.COMPLETE else last
        complete += block.state is BlockState.COMPLETE
    if not last:
        return
    race_of = {trial.number: trial.race for trial in trials}
    incumbent = _brought_along(table.ended[firsts[last][0]], race_of)
    still_open = (
        trial.race
        for trial in trials
        if trial.race in firsts
        and trial.number != incumbent
        and trial.state in (TrialState.QUEUED, TrialState.RUNNING)
    )
    race = min(last, min(still_open, default=last))
    replay.replayed, replay.complete = firsts[race]
    replay.incumbent = _brought_along(table.ended[replay.replayed], race_of)
    replay.endings = {
        trial.number: Ending(trial.state, trial.reason)
        for trial in trials
        if 0 < trial.race < race and trial.state in _ENDED and trial.number != replay.incumbent
    }


def _brought_along(block: BlockTimes, race_of: Mapping[int, int]) -> int:
    """The incumbent when the race of a block began: the arm that is of an earlier race."""
    earlier = (n for n in block.order if n != BASELINE and race_of.get(n, block.race) != block.race)
    return next(earlier, BASELINE)


def _follow(replay: Replay, decision: Decision, rules: Rules) -> None:
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
