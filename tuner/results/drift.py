"""How the baseline changed during the campaign: the series for a drift plot. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from statistics import fmean

from tuner.model import BASELINE, BlockKind
from tuner.plan.scores import ScoreTable


@dataclass(frozen=True, slots=True)
class DriftPoint:
    """The baseline in one block, which began at ``started``. ``ratio``: its geometric-mean time
    divided by its mean over all blocks.
    """

    block: int
    kind: BlockKind
    started: datetime
    ratio: float


def drift(table: ScoreTable, started: Mapping[int, datetime]) -> list[DriftPoint]:
    """Return the baseline of every complete block, in the order measured. ``started``: start times
    by block.

    Drift affects all arms of a block alike, and pairing removes it. It is shown so that a person
    can spot a testbed that warms up, fills up or is shared.
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
