"""Convert stored measurements to the numbers that the judge takes. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tuner.model import Block, BlockTimes, ComponentResult
from tuner.plan.scores import ScoreTable


def times_of(
    results: Mapping[str, ComponentResult], components: Sequence[str]
) -> tuple[float, ...]:
    """Return the times (s) of a run in the order of ``components``."""
    return tuple(results[name].elapsed_s for name in components)


def mean_differences(
    blocks: Sequence[Block | BlockTimes], components: Sequence[str], weights: Sequence[float]
) -> dict[int, float]:
    """Return the mean log time ratio of every trial of the search to the baseline."""
    return ScoreTable.of(blocks, components, weights).means()
