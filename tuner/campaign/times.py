"""From stored measurements to the numbers that the judge takes. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

import numpy as np
import numpy.typing as npt

from tuner.judge.score import log_scores
from tuner.model import BASELINE, Block, BlockKind, ComponentResult, Measurement
from tuner.states import BlockState

Floats = npt.NDArray[np.float64]


def times_of(
    results: Mapping[str, ComponentResult], components: Sequence[str]
) -> tuple[float, ...]:
    """The times (s) of a run in the order of ``components``."""
    return tuple(results[name].elapsed_s for name in components)


def component_times(measurement: Measurement, components: Sequence[str]) -> tuple[float, ...]:
    """The times (s) of a measurement in the order of ``components``."""
    return times_of(measurement.components, components)


def times_by_trial(block: Block, components: Sequence[str]) -> dict[int, tuple[float, ...]]:
    """The component times (s) of every trial that a block has measured."""
    return {m.trial: component_times(m, components) for m in block.measurements}


def block_scores(
    blocks: Sequence[Block], components: Sequence[str], weights: Sequence[float]
) -> list[tuple[Block, dict[int, float]]]:
    """Each complete block with the log score of every trial in it, in the order measured."""
    found: list[tuple[Block, dict[int, float]]] = []
    for block in blocks:
        if block.state is BlockState.COMPLETE:
            times = times_by_trial(block, components)
            scores = log_scores(list(times.values()), weights).tolist()
            found.append((block, dict(zip(times, scores, strict=True))))
    return found


def differences(
    blocks: Sequence[Block],
    components: Sequence[str],
    weights: Sequence[float],
    kind: BlockKind = BlockKind.SEARCH,
) -> dict[int, list[float]]:
    """Log time ratios to the baseline of every trial, one for each complete block of ``kind``."""
    found: dict[int, list[float]] = {}
    of_kind = [block for block in blocks if block.kind is kind]
    for _, scores in block_scores(of_kind, components, weights):
        for trial in scores.keys() - {BASELINE}:
            found.setdefault(trial, []).append(scores[trial] - scores[BASELINE])
    return found


def mean_differences(
    blocks: Sequence[Block], components: Sequence[str], weights: Sequence[float]
) -> dict[int, float]:
    """Mean log time ratio to the baseline of every trial of the search."""
    found = differences(blocks, components, weights)
    return {trial: fmean(values) for trial, values in found.items()}


def difference_table(
    blocks: Sequence[Block], components: Sequence[str], weights: Sequence[float]
) -> tuple[Floats, Floats, npt.NDArray[np.bool_]]:
    """Differences to the baseline (series, blocks), NaN where not measured, baseline scores, and
    which series are the pilot's.

    A series is a trial in one kind of block: the pilot's twin and a finalist's fresh blocks are
    series of their own.
    """
    scored = block_scores(blocks, components, weights)
    keys = {(block.kind, trial) for block, of in scored for trial in of if trial != BASELINE}
    row = {key: number for number, key in enumerate(sorted(keys))}
    pilot = np.array([kind is BlockKind.PILOT for kind, _ in row], dtype=np.bool_)
    table = np.full((len(row), len(scored)), np.nan)
    for column, (block, of) in enumerate(scored):
        for trial in of.keys() - {BASELINE}:
            table[row[block.kind, trial], column] = of[trial] - of[BASELINE]
    return table, np.array([of[BASELINE] for _, of in scored]), pilot
