"""The study of whole campaigns at a small scale, and the promises for its committed rows."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from bench.campaigns import study
from bench.output import write_csv

pytestmark = pytest.mark.slow

CAMPAIGNS = 60


def setting(name: str) -> study.Setting:
    return next(s for s in study.SETTINGS if s.name == name)


def test_a_gain_is_found_and_reported_correctly(tmp_path: Path) -> None:
    result = study.campaign(setting("one is 5% faster"), 1)
    assert (result.found, result.false, result.answer) == (True, False, "recommended")
    assert result.truth == pytest.approx(1 / 1.05)
    assert result.pilot_blocks >= 3
    assert result.certify_blocks >= 3
    write_csv([result], tmp_path / "rows.csv", ".5g")
    header, row = (tmp_path / "rows.csv").read_text(encoding="utf-8").splitlines()
    assert dict(zip(header.split(","), row.split(","), strict=True))["found"] == "True"
    last_line = study.table([result]).splitlines()[-1]
    assert last_line.startswith("| one is 5% faster | 1 | 0 | 1 | 0 | 1 |")


def test_each_campaign_has_a_winner_of_its_own() -> None:
    specs = [study.specification(setting("one is 5% faster"), seed) for seed in range(20)]
    # The same seed gives the same campaign.
    assert specs[7] == study.specification(setting("one is 5% faster"), 7)
    worlds = [spec.sections[0].section for spec in specs]
    assert len({world.effects[0].value for world in worlds if world is not None}) > 2
    assert len({str(spec.first) for spec in specs}) > 10


def test_committed_campaigns_keep_the_promises(root: Path) -> None:
    with (root / "bench" / "campaigns" / "results.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    by_world = {s.name: [r for r in rows if r["world"] == s.name] for s in study.SETTINGS}
    assert {len(mine) for mine in by_world.values()} == {CAMPAIGNS}
    for mine in by_world.values():
        false = sum(row["false"] == "True" for row in mine)
        assert false / CAMPAIGNS <= study.most_false(CAMPAIGNS)
    successes = sum(row["found"] == "True" for row in by_world["one is 5% faster"])
    assert successes >= 0.95 * CAMPAIGNS
