"""The trials of a search: configurations, their arms, and failures. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tuner.model import Configuration
from tuner.propose.effects import Evidence
from tuner.propose.encoding import Floats

#: Standard deviation within blocks below which a scaled covariate explains nothing.
_STILL = 0.003
#: A component's log time counts at most as this much above the median of its block, or as this many
#: times the loss allowed to it, if that is more.
_MOST, _MOST_FLOORS = math.log(2.0), 2.0


@dataclass(frozen=True, slots=True)
class SearchTrial:
    """A configuration that was measured. ``number``: of its trial; ``failed``: it does not run;
    ``out``: it must not be measured again; ``earlier``: only an earlier campaign has measured it.
    """

    number: int
    configuration: Configuration
    failed: bool = False
    out: bool = False
    earlier: bool = False


@dataclass(frozen=True, slots=True)
class Arm:
    """A measured arm. ``trial`` 0 is the baseline. ``logs``: log times, one per component;
    ``load``: its covariates, scaled to effects of about 1, None for unknown ones; () without any.
    """

    trial: int
    block: int
    logs: tuple[float, ...]
    load: tuple[float | None, ...] = ()


def evidence_of(
    arms: Sequence[Arm], rows: Mapping[int, int], weights: Sequence[float], floor: float
) -> Evidence:
    """Return the arms as the model takes them: the score, then the components. ``rows``: the index
    of each trial's configuration; ``floor``: the largest loss allowed to a component, log units.

    The effects of the model add up. If a few configurations took many times as long in full, it
    would explain that by effects of all their settings, and the opposite of these would seem to
    gain.
    """
    logs = np.array([arm.logs for arm in arms]).reshape(len(arms), len(weights))
    block = np.array([arm.block for arm in arms], np.int64)
    logs = _limited(logs, block, max(_MOST, _MOST_FLOORS * floor))
    return Evidence(
        np.array([rows.get(arm.trial, -1) for arm in arms], np.int64),
        block,
        np.column_stack([logs @ np.asarray(weights), logs]),
        loads(arms),
    )


def _limited(logs: Floats, block: np.ndarray, most: float) -> Floats:
    """Return log times of at most ``most`` above the median of their block, by component."""
    limited = logs.copy()
    order = np.argsort(block, kind="stable")
    for here in np.split(order, np.flatnonzero(np.diff(block[order])) + 1):
        if here.size:
            limited[here] = np.minimum(logs[here], np.median(logs[here], axis=0) + most)
    return limited


def loads(arms: Sequence[Arm]) -> Floats | None:
    """Return the covariates that differ between arms, (arms, covariates); an unknown value is that
    of its block's mean. None if there are none.
    """
    width = max((len(arm.load) for arm in arms), default=0)
    if not width:
        return None
    unknown = (None,) * width
    values = np.array([arm.load or unknown for arm in arms], np.float64)
    _, block = np.unique([arm.block for arm in arms], return_inverse=True)
    present = ~np.isnan(values)
    filled = np.where(present, values, 0.0)
    sums, counts = np.zeros((2, int(block.max()) + 1, width))
    np.add.at(sums, block, filled)
    np.add.at(counts, block, present)
    means = (sums / np.maximum(counts, 1.0))[block]
    deviations = np.where(present, values - means, 0.0)
    moving = np.sqrt((deviations**2).mean(axis=0)) > _STILL
    return deviations[:, moving] if moving.any() else None


def differences(arms: Sequence[Arm], rows: Mapping[int, int]) -> dict[int, list[Floats]]:
    """Return the log time ratios to the baseline of each configuration's arms, by its row."""
    base = {arm.block: np.array(arm.logs) for arm in arms if arm.trial not in rows}
    differences: dict[int, list[Floats]] = {}
    for arm in arms:
        if arm.trial in rows and arm.block in base:
            differences.setdefault(rows[arm.trial], []).append(np.array(arm.logs) - base[arm.block])
    return differences


def failing(features: Floats, failed: np.ndarray) -> Floats:
    """Return weights whose product with features estimates the probability that a configuration
    does not run: ridge regression on the failures, zero if there are none.
    """
    if not failed.any():
        return np.zeros(features.shape[1])
    gram = features.T @ features + 0.5 * np.eye(features.shape[1])
    return np.asarray(np.linalg.solve(gram, features.T @ failed), dtype=np.float64)
