"""The studies of adjusted differences and lax floors at a small scale, and their committed rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bench.error_rates.adjusted import (
    COST,
    FRESH_BLOCKS,
    GAINS,
    RULES,
    SEARCH_BLOCKS,
    WORLDS,
    AdjustedRow,
    World,
    adjusted_rows,
    adjusted_table,
    gains_shown,
    history,
)
from bench.error_rates.floors import (
    COMPONENTS,
    FLOORS,
    TRUTHS,
    FloorRow,
    floor_rows,
    floor_table,
    recommended,
)
from bench.output import write_csv
from tests.unit.bench.committed import rows_of
from tuner.judge.adjustment import fit_adjustment, raw_alpha
from tuner.judge.certify import CertificateOutcome, PairedTimes, certify
from tuner.judge.evalue import Floats
from tuner.model import COVARIATES


def world(name: str) -> World:
    return next(one for one in WORLDS if one.name == name)


@pytest.mark.parametrize("kind", WORLDS, ids=lambda w: w.name)
def test_no_arm_is_faster_than_another_whatever_it_influences(kind: World) -> None:
    """Within four standard errors of the mean."""
    y, _ = kind.blocks(np.random.default_rng(1), (2000, 6), 2)
    d = (y[..., 1] - y[..., 0]).mean(axis=1)
    assert abs(d.mean()) < 4.0 * d.std() / len(d) ** 0.5


@pytest.mark.parametrize(
    "name", ["half explained", "half explained, lasting", "half explained, bursts"]
)
def test_others_explain_half_of_the_variance(name: str) -> None:
    y, z = world(name).blocks(np.random.default_rng(1), (4000, 12), 2)
    d, dz = (x[..., 1] - x[..., 0] for x in (y, z))
    explained = 1.0 - (d - COST * dz).var() / d.var()
    assert explained == pytest.approx(0.5, abs=0.03)


def test_influences_are_those_of_the_finalist() -> None:
    _, z = world("influence .1").blocks(np.random.default_rng(1), (4000, 6), 3)
    means = z.mean(axis=(0, 1))
    assert means[1] - means[0] == pytest.approx(0.1, abs=0.02)
    assert means[2] == pytest.approx(means[0], abs=0.02)


def test_a_finalist_is_measured_in_the_last_blocks_of_the_search() -> None:
    kind = World("late", more=9.0, blocks_searched=5)
    observations = history(kind, np.random.default_rng(1))
    own = observations.trial == 1
    assert sorted(set(observations.block[own].tolist())) == [7, 8, 9, 10, 11]
    covariates = observations.covariates[:, 0]
    assert covariates[own].min() > 5.0
    assert covariates[~own].max() < 5.0
    whole = history(World("all"), np.random.default_rng(1))
    assert (whole.trial == 1).sum() == SEARCH_BLOCKS


def test_a_claim_is_the_judges() -> None:
    """Compare look by look, on paths with every kind of answer."""
    rng = np.random.default_rng(2)
    kind = world("half explained")
    adjustment = fit_adjustment(history(kind, rng), [1.0], finalist=1)
    assert adjustment.score.used
    y, z = kind.blocks(rng, (30, FRESH_BLOCKS), 2)
    d, dz = y[..., 1] - y[..., 0] - 0.08, z[..., 1] - z[..., 0]
    flags = gains_shown(adjustment, d, dz)["adjusted"]
    for path, (own, others) in enumerate(zip(d, dz, strict=True)):
        covariates = np.full((FRESH_BLOCKS, len(COVARIATES)), np.nan)
        covariates[:, 0] = others
        pairs = [
            PairedTimes((float(time),), (1.0,), tuple(load))
            for time, load in zip(np.exp(own), covariates, strict=True)
        ]
        outcomes = [
            certify(
                pairs[:n], [1.0], floor=1e3, max_n=FRESH_BLOCKS, adjustment=adjustment.score
            ).outcome
            for n in range(3, FRESH_BLOCKS + 1)
        ]
        assert (CertificateOutcome.CERTIFIED in outcomes) == flags[path]
    assert 5 < flags.sum() < 30


@pytest.mark.slow
@pytest.mark.parametrize(("floor_alpha", "sd"), [(0.025, 0.25), (0.2, 0.4)])
def test_a_recommendation_is_the_judges(floor_alpha: float, sd: float) -> None:
    rng = np.random.default_rng(1)
    d: Floats = TRUTHS[2].means(0.25) + sd * rng.standard_normal((20, 12, COMPONENTS))
    _, flags = recommended(d, 0.25, 12, floor_alpha)
    weights = [1.0 / COMPONENTS] * COMPONENTS
    for path, expected in zip(np.exp(d), flags, strict=True):
        pairs = [PairedTimes(tuple(times), (1.0,) * COMPONENTS) for times in path.tolist()]
        outcomes = [
            certify(pairs[:n], weights, floor=0.25, max_n=12, floor_alpha=floor_alpha).outcome
            for n in range(3, 13)
        ]
        assert (CertificateOutcome.CERTIFIED in outcomes) == expected
    assert 0 < flags.sum() < 20


@pytest.mark.slow
def test_the_studies_in_small(tmp_path: Path) -> None:
    rows = list(adjusted_rows(2))
    assert len(rows) == len(WORLDS) * len(GAINS) * len(RULES)
    assert [r.shown for r in rows] == [r.shown for r in adjusted_rows(2)]
    write_csv(rows, tmp_path / "adjusted.csv", ".4g")
    assert len((tmp_path / "adjusted.csv").read_text().splitlines()) == len(rows) + 1
    assert adjusted_table(rows).count("\n") == len(WORLDS) + 1


def test_committed_claims_keep_their_error(root: Path) -> None:
    rows = rows_of(AdjustedRow, root, "adjusted.csv")
    assert {row.world for row in rows} == {one.name for one in WORLDS}
    for row in rows:
        if row.gain == 0.0 and row.rule == "adjusted":
            limit = raw_alpha(0.025) if world(row.world).influenced else 0.025
            assert row.limit == limit
            assert row.shown <= limit + 3.0 * (limit * (1.0 - limit) / row.paths) ** 0.5, row
            assert row.shown < 0.05, row  # the worst case according to the judge's docstring


def test_committed_claims_find_more_than_raw_ones(root: Path) -> None:
    rates = {
        (row.world, row.gain, row.rule): row.shown
        for row in rows_of(AdjustedRow, root, "adjusted.csv")
    }
    for one in WORLDS:
        if one.name.startswith("half explained"):
            least = 0.0 if one.name.endswith("bounded") else 0.1
            assert rates[one.name, 0.08, "adjusted"] > rates[one.name, 0.08, "raw"] + least
        elif one.name.startswith("nothing"):
            raw = rates[one.name, 0.08, "raw"]
            assert rates[one.name, 0.08, "adjusted"] == pytest.approx(raw, abs=0.01)


def test_committed_floors_keep_their_error(root: Path) -> None:
    rows = rows_of(FloorRow, root, "floors.csv")
    broken = [row for row in rows if row.truth in {t.name for t in TRUTHS if t.breaks_floor}]
    assert len(broken) * 2 == len(rows)
    for row in broken:
        alpha = row.floor_alpha
        assert row.recommended <= alpha + 3.0 * (alpha * (1.0 - alpha) / row.paths) ** 0.5, row


def test_readme_shows_the_committed_figures_of_both(root: Path) -> None:
    text = (root / "bench" / "error_rates" / "README.md").read_text(encoding="utf-8")
    adjusted = rows_of(AdjustedRow, root, "adjusted.csv")
    floors = rows_of(FloorRow, root, "floors.csv")
    assert adjusted_table(adjusted) in text
    for floor in FLOORS:
        assert floor_table(floors, 20, floor) in text


@pytest.mark.slow
def test_floors_in_small() -> None:
    rows = list(floor_rows(40))
    assert [r.recommended for r in rows] == [r.recommended for r in floor_rows(40)]
    by = {(r.truth, r.floor, r.sd, r.blocks, r.floor_alpha): r.recommended for r in rows}
    assert by[TRUTHS[2].name, 0.25, 0.05, 20, 0.2] == 1.0
    assert by[TRUTHS[1].name, 0.25, 0.05, 20, 0.025] == 0.0
