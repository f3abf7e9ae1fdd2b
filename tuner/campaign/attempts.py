"""Attempts at a certificate: which fresh blocks belong to which, and how much error each may make.
Pure.

A campaign may certify several times: early what is worth it, later something better. The attempts
share one error: attempt k = 1, 2, ... is judged at

    alpha_k = alpha * s * (1 - s)^(k - 1),    s = 0.6,

which adds up to alpha however many there are, so that the chance of any false certificate stays
below it (union bound). Most of it goes to the first, which for many campaigns is the only one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tuner.campaign.rules import FIRST_SHARE
from tuner.judge.levels import ALPHA
from tuner.model import BASELINE, BlockKind, BlockTimes


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt. ``number`` counts from 1; ``race``: what its blocks are marked with;
    ``first``: the number of its first block; ``finalists``: the trials that are certified together;
    ``blocks``: its complete blocks.
    """

    number: int
    race: int
    first: int
    finalists: tuple[int, ...]
    blocks: tuple[BlockTimes, ...]

    @property
    def alpha(self) -> float:
        """The one-sided error that its certificates share."""
        return alpha_of(self.number)


def alpha_of(number: int) -> float:
    """The share of the error of attempt ``number``, which counts from 1."""
    return ALPHA * FIRST_SHARE * (1.0 - FIRST_SHARE) ** (number - 1)


def attempts(blocks: Sequence[BlockTimes], scored: Sequence[BlockTimes]) -> tuple[Attempt, ...]:
    """The attempts so far, in order. ``blocks``: all blocks; ``scored``: the complete ones.

    The blocks of one attempt have one race number; its finalists are those of its first block.
    """
    first: dict[int, BlockTimes] = {}
    for block in blocks:
        if block.kind is BlockKind.CERTIFY:
            first.setdefault(block.race, block)
    complete: dict[int, list[BlockTimes]] = {race: [] for race in first}
    for block in scored:
        if block.kind is BlockKind.CERTIFY:
            complete[block.race].append(block)
    return tuple(
        Attempt(
            number,
            race,
            block.number,
            tuple(sorted(n for n in block.order if n != BASELINE)),
            tuple(complete[race]),
        )
        for number, (race, block) in enumerate(first.items(), start=1)
    )
