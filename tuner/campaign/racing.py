"""The races of a campaign, replayed from its stored blocks. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tuner.campaign.rules import Rules
from tuner.campaign.steps import Ending
from tuner.campaign.times import times_by_trial
from tuner.judge.race import Action, Decision, RaceBlock, RaceState, decide
from tuner.model import BASELINE, Block, BlockKind, Trial
from tuner.states import BlockState, TrialState


@dataclass(slots=True)
class Replay:
    """The race as it stands after the blocks replayed so far."""

    incumbent: int = BASELINE
    blocks: list[RaceBlock] = field(default_factory=list)
    endings: dict[int, Ending] = field(default_factory=dict)
    decisions: tuple[Decision, ...] = ()
    replayed: int = 0


def advance(
    replay: Replay,
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
        times = times_by_trial(block, rules.components)
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
