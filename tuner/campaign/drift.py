"""How the baseline moved while the campaign measured: the series behind a drift plot. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import fmean

from tuner.campaign.times import block_scores
from tuner.model import BASELINE, Block, BlockKind


@dataclass(frozen=True, slots=True)
class DriftPoint:
    """The baseline in one block, ``started`` then. ``ratio``: its geometric-mean time over its own
    mean of all blocks.
    """

    block: int
    kind: BlockKind
    started: datetime
    ratio: float


def drift(
    blocks: Sequence[Block], components: Sequence[str], weights: Sequence[float]
) -> list[DriftPoint]:
    """The baseline of every complete block, in the order measured.

    What moves here moves all arms of a block alike and is taken out by pairing; it is shown so that
    a person sees a testbed that warms up, fills up or is shared.
    """
    scored = block_scores(blocks, components, weights)
    if not scored:
        return []
    middle = fmean(scores[BASELINE] for _, scores in scored)
    points: list[DriftPoint] = []
    for block, scores in scored:
        measured = next(m for m in block.measurements if m.trial == BASELINE)
        ratio = math.exp(scores[BASELINE] - middle)
        points.append(DriftPoint(block.number, block.kind, measured.started, ratio))
    return points
