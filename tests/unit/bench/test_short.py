"""The study of short campaigns: a campaign, and its committed rows."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from bench.short import study

pytestmark = pytest.mark.slow


def test_a_campaign_is_counted() -> None:
    row = study.campaign("cell-quiet", 1)
    assert 60 <= row.measurements <= 85
    assert not row.false
    assert row.recommended == (row.gain is not None)
    assert study.table([row]).count("\n") == 2


def test_no_committed_recommendation_is_false_and_many_campaigns_have_one() -> None:
    path = Path(study.__file__).with_name("results.csv")
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["surface"] for row in rows} == set(study.SURFACES)
    assert {row["false"] for row in rows} == {"False"}
    # A fifth of the budget of bench/peers.
    assert 3 * sum(row["recommended"] == "True" for row in rows) > len(rows)
