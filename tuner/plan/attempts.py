"""Attempts at a certificate: which fresh blocks each one has, and its share of the error. Pure.

A campaign may attempt certification several times: early, for a gain worth having soon, and later,
for something better. The attempts share one error: attempt k = 1, 2, ... is judged at

    alpha_k = alpha * s * (1 - s)^(k - 1),    s = 0.6,

which sums to at most alpha for any number of attempts, so that the probability of any false
certificate stays below alpha (union bound). Most of it goes to the first attempt, which in many
campaigns is the only one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tuner.judge.levels import ALPHA, FIRST_SHARE
from tuner.model import BASELINE, BlockKind, BlockTimes
from tuner.states import BlockState


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt at a certificate.

    ``number`` counts from 1. ``round``: that of its blocks. ``first``: the number of its
    first block. ``finalists``: the trials to be certified together. ``blocks``: its complete
    blocks.
    """

    number: int
    round: int
    first: int
    finalists: tuple[int, ...]
    blocks: tuple[BlockTimes, ...]

    @property
    def alpha(self) -> float:
        """One-sided error shared by the certificates of this attempt."""
        return alpha_of(self.number)


def alpha_of(number: int) -> float:
    """Share of the error for attempt ``number``, which counts from 1."""
    return ALPHA * FIRST_SHARE * (1.0 - FIRST_SHARE) ** (number - 1)


def attempts(blocks: Sequence[BlockTimes]) -> tuple[Attempt, ...]:
    """Return the attempts so far, in order. ``blocks``: all that have ended.

    All blocks of an attempt belong to one round; its finalists are those of its first block.
    """
    rounds: dict[int, list[BlockTimes]] = {}
    for block in blocks:
        if block.kind is BlockKind.CERTIFY:
            rounds.setdefault(block.round, []).append(block)
    return tuple(
        Attempt(
            number,
            round_,
            of_round[0].number,
            tuple(sorted(n for n in of_round[0].order if n != BASELINE)),
            tuple(block for block in of_round if block.state is BlockState.COMPLETE),
        )
        for number, (round_, of_round) in enumerate(rounds.items(), start=1)
    )
