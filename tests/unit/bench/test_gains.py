"""The study of the gains of single settings: how one is counted, and its committed rows."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from bench.gains import study
from bench.gains.study import Row, true_gain
from tests.unit.bench.committed import rows_of
from tuner.model import Configuration
from tuner.simulate import load_surface

pytestmark = pytest.mark.slow

STUDY = Path("bench", "gains")


def test_the_true_gain_of_a_setting_is_what_the_others_lose_without_it() -> None:
    surface = load_surface("sparse-three")
    best, score = surface.best
    for name in best.as_dict():
        values = best.as_dict()
        del values[name]
        without = surface.truth(Configuration.of(values)).score
        assert true_gain(surface, best, name) == pytest.approx(without - score)


@pytest.mark.parametrize(
    ("interval", "is_covered", "is_credited"),
    [((0.8, 0.95), True, True), ((0.8, 1.1), True, False), ((0.92, 0.99), False, True)],
)
def test_a_gain_is_compared_with_its_interval(
    interval: tuple[float, float], is_covered: bool, is_credited: bool
) -> None:
    row = Row("sparse-three", 0.1, 1, "fileserver.threads", -math.log(0.9), 0.9, *interval)
    assert (row.has_effect, row.is_covered, row.is_credited) == (True, is_covered, is_credited)


def test_most_gains_of_the_committed_campaigns_are_in_their_intervals(root: Path) -> None:
    rows = rows_of(Row, root, "results.csv", STUDY)
    assert len(rows) > 400
    assert sum(row.is_covered for row in rows) >= 0.95 * len(rows)
    inert = [row for row in rows if not row.has_effect]
    assert sum(row.is_credited for row in inert) <= 0.025 * len(inert)
    text = (root / STUDY / "README.md").read_text(encoding="utf-8")
    assert study.table(rows) in text
