"""Two-way residuals: values with block and trial effects removed."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.judge.disturbed_arms import OTHERS, World
from tuner.judge.observations import Observations, Rows

OBSERVATIONS = World().observations(1)
ROWS = Rows.of(OBSERVATIONS, OBSERVATIONS.logs, np.array([OTHERS]))


def levels(rows: Rows) -> np.ndarray:
    """Return a design matrix with a column for each block and for each trial."""
    blocks = np.arange(rows.blocks) == rows.block[:, None]
    trials = np.arange(len(rows.numbers)) == rows.trial[:, None]
    return np.concatenate([blocks, trials], axis=1).astype(float)


def test_residuals_are_those_of_least_squares() -> None:
    design = levels(ROWS)
    for values in (ROWS.y, ROWS.z):
        fit = design @ np.linalg.lstsq(design, values, rcond=None)[0]
        assert ROWS.within(values) == pytest.approx(values - fit, abs=1e-7)


def test_degrees_of_freedom_are_what_the_levels_leave() -> None:
    assert ROWS.freedom == len(ROWS.trial) - np.linalg.matrix_rank(levels(ROWS))


def test_the_baseline_is_in_every_block() -> None:
    assert ROWS.blocks == 12
    assert (np.bincount(ROWS.block[ROWS.trial == 0]) == 1).all()
    assert (ROWS.y[ROWS.trial == 0] == 0.0).all()
    assert (np.diff(ROWS.block) >= 0).all()


def test_rows_without_a_covariate_are_left_out() -> None:
    covariates = OBSERVATIONS.covariates.copy()
    covariates[OBSERVATIONS.block == 3, OTHERS] = np.nan
    covariates[0, OTHERS] = np.nan
    gaps = Observations(OBSERVATIONS.trial, OBSERVATIONS.block, OBSERVATIONS.logs, covariates)
    rows = Rows.of(gaps, gaps.logs, np.array([OTHERS]))
    assert rows.blocks == 11
    assert len(rows.trial) == len(ROWS.trial) - 4 - 1


def test_no_observations() -> None:
    empty = OBSERVATIONS.only(np.zeros(len(OBSERVATIONS.trial), dtype=np.bool_))
    assert Rows.of(empty, empty.logs, np.array([OTHERS])).blocks == 0
