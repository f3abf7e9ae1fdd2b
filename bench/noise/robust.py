"""Whether other statistics of a component would be less noisy than its total time.

Uses the data stored for every component: its time and number of operations, and the median, 95th
percentile and maximum of its latencies.
"""

from __future__ import annotations

import csv
import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev

import numpy as np
import scipy

from tuner.judge.evalue import Floats, Ints
from tuner.judge.observations import Rows
from tuner.model import BASELINE, ComponentResult, Measurement
from tuner.states import BlockState
from tuner.store import Store

#: Minimum operations of a component in every run: percentiles of fewer are single operations.
_MOST_FEW = 200
#: Minimum trials for a rank correlation, and blocks for a standard deviation.
_TRIALS, _BLOCKS = 8, 10


def _mean(of: ComponentResult) -> float:
    return of.elapsed_s / of.operations


def _median(of: ComponentResult) -> float:
    assert of.p50_s is not None
    return of.p50_s


def _winsorised(of: ComponentResult) -> float:
    """Return the mean with latencies clipped to the median and the 95th percentile.

    Between the two, latencies are assumed to rise evenly.
    """
    assert of.p50_s is not None
    assert of.p95_s is not None
    return 0.5 * of.p50_s + 0.45 * (of.p50_s + of.p95_s) / 2.0 + 0.05 * of.p95_s


def _without_slowest(of: ComponentResult) -> float:
    """Return the mean without the slowest operation, as if no other had waited for it."""
    assert of.max_s is not None
    return max(of.elapsed_s - of.max_s, 1e-9) / max(of.operations - 1, 1)


TIMES: Mapping[str, Callable[[ComponentResult], float]] = {
    "mean": _mean,
    "without-slowest": _without_slowest,
    "winsorised": _winsorised,
    "median": _median,
}


@dataclass(frozen=True)
class Robust:
    """One component of one campaign by one kind of time.

    ``variance``: of a difference between two runs in a block, in squared log units; ``ratio``: to
    that of the mean; ``agreement``: rank correlation (Spearman) of the trials' differences from the
    baseline with those of the mean, None if there are few trials. ``shown``: how clearly the trial
    measured most often differs from the baseline, that is the mean of its differences over their
    standard deviation; None if there are few blocks.
    """

    campaign: str
    component: str
    time: str
    variance: float
    ratio: float
    agreement: float | None
    shown: float | None


def robust(store: Store) -> list[Robust]:
    """Evaluate every component with enough operations, for every campaign."""
    rows: list[Robust] = []
    for campaign in sorted(store.campaigns(), key=lambda each: each.name):
        blocks = [b for b in store.blocks(campaign.id) if b.state is BlockState.COMPLETE]
        arms = [(m, place) for place, block in enumerate(blocks) for m in block.measurements]
        names = sorted({name for m, _ in arms for name in m.components})
        for name in names:
            if all(_enough(m, name) for m, _ in arms):
                rows += _compare(campaign.name, name, arms)
    return rows


def _enough(measurement: Measurement, name: str) -> bool:
    of = measurement.components.get(name)
    has_times = of is not None and None not in (of.p50_s, of.p95_s, of.max_s)
    return has_times and of is not None and of.operations >= _MOST_FEW


def _compare(campaign: str, name: str, arms: Sequence[tuple[Measurement, int]]) -> list[Robust]:
    trial = np.array([m.trial for m, _ in arms])
    block = np.array([place for _, place in arms])
    logs = {
        time: np.array([math.log(of(m.components[name])) for m, _ in arms])
        for time, of in TIMES.items()
    }
    base = _variance(trial, block, logs["mean"])
    differences = {time: _differences(trial, block, y) for time, y in logs.items()}
    if base is None:
        return []
    rows = []
    for time, y in logs.items():
        variance = _variance(trial, block, y) or 0.0
        means = [[fmean(those) for those in differences[of]] for of in ("mean", time)]
        agreement = clarity = None
        if len(means[0]) >= _TRIALS:
            agreement = float(scipy.stats.spearmanr(means[0], means[1]).statistic)
        most = max(differences[time], key=len)
        if len(most) >= _BLOCKS:
            clarity = fmean(most) / stdev(most)
        rows.append(Robust(campaign, name, time, variance, variance / base, agreement, clarity))
    return rows


def _variance(trial: Ints, block: Ints, y: Floats) -> float | None:
    numbers, of_trial = np.unique(trial, return_inverse=True)
    rows = Rows(of_trial, block, y[:, None], np.empty((len(y), 0)), numbers)
    if rows.freedom < 1:
        return None
    return float(2.0 * (rows.within(y[:, None]) ** 2).sum() / rows.freedom)


def _differences(trial: Ints, block: Ints, y: Floats) -> list[list[float]]:
    """Return the differences of each trial from the baseline, in order of trial number."""
    base = {int(b): float(v) for t, b, v in zip(trial, block, y, strict=True) if t == BASELINE}
    by_trial: defaultdict[int, list[float]] = defaultdict(list)
    for t, b, v in zip(trial, block, y, strict=True):
        if t != BASELINE and int(b) in base:
            by_trial[int(t)].append(float(v) - base[int(b)])
    return [by_trial[number] for number in sorted(by_trial)]


def summary(rows: Sequence[Robust]) -> list[tuple[str, str, float, float, float]]:
    """Summarise the campaigns by component and kind of time.

    Each entry ends with the geometric mean of the variance ratios, the mean agreement, and the root
    mean square of ``shown``; NaN where no campaign has a value.
    """
    by: defaultdict[tuple[str, str], list[Robust]] = defaultdict(list)
    for each in rows:
        by[each.component, each.time].append(each)
    return [
        (
            component,
            time,
            math.exp(fmean(math.log(max(each.ratio, 1e-12)) for each in those)),
            _mean_of([each.agreement for each in those]),
            math.sqrt(_mean_of([None if e.shown is None else e.shown**2 for e in those])),
        )
        for (component, time), those in by.items()
    ]


def _mean_of(values: Sequence[float | None]) -> float:
    numbers = [value for value in values if value is not None]
    return fmean(numbers) if numbers else math.nan


def write_robust(rows: Sequence[Robust], file: Path) -> None:
    """Write a row for each campaign, component and kind of time."""
    with file.open("w", newline="", encoding="utf-8") as out:
        writer = csv.writer(out, lineterminator="\n")
        names = ("campaign", "component", "time", "variance", "ratio", "agreement", "shown")
        writer.writerow(names)
        for each in rows:
            numbers = (each.variance, each.ratio, each.agreement, each.shown)
            row = ["" if number is None else f"{number:.6g}" for number in numbers]
            writer.writerow((each.campaign, each.component, each.time, *row))
