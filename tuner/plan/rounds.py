"""Rounds of the search and of certification: their trials and blocks. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from tuner.model import Trial
from tuner.plan.answer import Flags
from tuner.plan.scores import ScoreTable
from tuner.plan.steps import Explore, RunBlock
from tuner.states import TrialState


def measured(trials: Sequence[Trial], table: ScoreTable) -> Sequence[Trial]:
    """Return the trials of the rounds that have a block. A round that was cut off before its first
    block is planned again as if its trials did not exist.
    """
    newest = table.newest_round
    return [trial for trial in trials if trial.round <= newest]


def trials_and_blocks(
    step: Explore, trials: Sequence[Trial], flags: Flags, seed: int, *, together: bool
) -> tuple[list[Trial], list[RunBlock]]:
    """Convert a round: return the trials that it adds to ``trials``, and its blocks.

    If the round was cut off after its trials had been stored, ``trials`` contains them already.
    ``flags``: renders a configuration. ``together``: the blocks are measured concurrently.
    """
    numbers = {t.configuration: t.number for t in trials if t.round == step.round}
    new: list[Trial] = []
    blocks = []
    for slot, group in enumerate(step.groups):
        order = []
        for pick in group:
            if isinstance(pick, int):
                order.append(pick)
                continue
            configuration = pick.configuration
            if configuration not in numbers:
                number = numbers[configuration] = len(trials) + len(new)
                state, options = TrialState.RUNNING, flags(configuration)
                new.append(Trial(number, configuration, step.round, pick.origin, state, options))
            order.append(numbers[configuration])
        blocks.append(
            RunBlock.shuffled(
                seed,
                step.number + slot,
                step.kind,
                step.round,
                order,
                batch=step.number if together else None,
                slot=slot,
            )
        )
    return new, blocks
