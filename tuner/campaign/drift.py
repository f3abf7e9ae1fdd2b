"""How the baseline moved while the campaign measured: the series behind a drift plot. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from statistics import fmean

from tuner.campaign.scores import ScoreTable
from tuner.model import BASELINE, BlockKind


@dataclass(frozen=True, slots=True)
class DriftPoint:
    """The baseline in one block, ``started`` then. ``ratio``: its geometric-mean time over its own
    mean of all blocks.
    """

    block: int
    kind: BlockKind
    started: datetime
    ratio: float


def drift(table: ScoreTable, started: Mapping[int, datetime]) -> list[DriftPoint]:
    """The baseline of every complete block, in the order measured. ``started``: when, by block.

    What moves here moves all arms of a block alike and is taken out by pairing; it is shown so that
    a person sees a testbed that warms up, fills up or is shared.
    """
    if not table.scored:
        return []
    middle = fmean(one.scores[BASELINE] for one in table.scored)
    return [
        DriftPoint(
            one.block.number,
            one.block.kind,
            started[one.block.number],
            math.exp(one.scores[BASELINE] - middle),
        )
        for one in table.scored
    ]
