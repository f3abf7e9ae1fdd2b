"""From stored measurements to the numbers that the judge takes. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

import numpy as np
import numpy.typing as npt

from tuner.judge.score import log_scores
from tuner.model import BASELINE, Block, BlockKind, Measurement
from tuner.states import BlockState

Floats = npt.NDArray[np.float64]


def component_times(measurement: Measurement, components: Sequence[str]) -> tuple[float, ...]:
    """The times (s) of a measurement in the order of ``components``."""
    return tuple(measurement.components[name].elapsed_s for name in components)


def search_scores(
    blocks: Sequence[Block], components: Sequence[str], weights: Sequence[float]
) -> list[dict[int, float]]:
    """The log score of every trial in each complete block of the search, in the order measured."""
    search = [block for block in blocks if block.kind is BlockKind.SEARCH]
    return [scores for _, scores in _block_scores(search, components, weights)]


def _block_scores(
    blocks: Sequence[Block], components: Sequence[str], weights: Sequence[float]
) -> list[tuple[BlockKind, dict[int, float]]]:
    found: list[tuple[BlockKind, dict[int, float]]] = []
    for block in blocks:
        if block.state is BlockState.COMPLETE:
            times = [component_times(m, components) for m in block.measurements]
            numbers = [m.trial for m in block.measurements]
            scores = log_scores(times, weights).tolist()
            found.append((block.kind, dict(zip(numbers, scores, strict=True))))
    return found


def mean_differences(scores: Sequence[dict[int, float]]) -> dict[int, float]:
    """Mean log time ratio to the baseline of every trial. ``scores``: see ``search_scores``."""
    found: dict[int, list[float]] = {}
    for block in scores:
        for trial in block.keys() - {BASELINE}:
            found.setdefault(trial, []).append(block[trial] - block[BASELINE])
    return {trial: fmean(values) for trial, values in found.items()}


def difference_table(
    blocks: Sequence[Block], components: Sequence[str], weights: Sequence[float]
) -> tuple[Floats, Floats]:
    """Differences to the baseline (series, blocks), NaN where not measured, and baseline scores.

    A series is a trial in one kind of block: the pilot's twin and a finalist's fresh blocks are
    series of their own.
    """
    scored = _block_scores(blocks, components, weights)
    series = sorted({(kind, trial) for kind, of in scored for trial in of if trial != BASELINE})
    table = np.full((len(series), len(scored)), np.nan)
    for column, (kind, of) in enumerate(scored):
        for row, (of_kind, trial) in enumerate(series):
            if of_kind is kind and trial in of:
                table[row, column] = of[trial] - of[BASELINE]
    return table, np.array([of[BASELINE] for _, of in scored])
