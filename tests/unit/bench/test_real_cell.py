"""The results of a series on a real cell, which may be run in pieces."""

from __future__ import annotations

import csv
from pathlib import Path

from bench.real_cell.series import Row, record


def test_results_of_other_seeds_stay(tmp_path: Path) -> None:
    file = tmp_path / "results.csv"
    record(Row("quickstart", 10, "no_improvement", "too noisy"), file)
    record(
        Row("quickstart", 2, "recommended", 'a "gain", certified', gain=0.05, again=0.0625), file
    )
    before = file.read_text().splitlines()
    record(Row("quickstart", 10, "recommended", "found", gain=0.1), file)
    with file.open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    assert [row["seed"] for row in rows] == ["2", "10"]
    assert file.read_text().splitlines()[:2] == before[:2]
    assert (rows[0]["gain"], rows[0]["again"], rows[0]["least"]) == ("0.0500", "0.0625", "")
    assert (rows[1]["answer"], rows[1]["gain"]) == ("recommended", "0.1000")
