"""How much the measures against noise helped in stored campaigns, as reported and as studied."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bench.noise.levels import copied, levels, write_levels
from bench.noise.robust import TIMES, robust, summary, write_robust
from tests.unit.campaign.campaigns import Campaign, faster, spec
from tests.unit.campaign.conftest import Begin
from tuner.cli.app import app
from tuner.judge.noise_records import NoiseMeasure, NoiseReport
from tuner.model import ComponentResult
from tuner.plan.rules import stored_rules
from tuner.results.noise import campaign_noise
from tuner.states import EventKind

pytestmark = pytest.mark.slow


def noise_of(campaign: Campaign) -> NoiseReport:
    row = campaign.store.campaign(campaign.id)
    report = campaign_noise(campaign.store, campaign.id, stored_rules(row))
    assert report is not None
    return report


def test_each_measure_removes_its_kind_of_noise(begin: Begin) -> None:
    """With differences between blocks and with other load, which is high enough in some arms to
    repeat them.
    """
    load = {"mean": 0.4, "sd": 0.5, "correlation": 0.0, "effect": 0.33}
    simulated = {"noise": 0.02, "block_noise": 0.2, "effects": [faster()], "others": load}
    campaign = begin(spec(testbed={"simulated": simulated}, search={"arms": 4, "max_trials": 24}))
    campaign.run()
    report = noise_of(campaign)
    by = {level.measure: level.score for level in report.levels}
    again = campaign.store.events(campaign.id, kinds=[EventKind.MEASURED_AGAIN])
    assert report.again == len({(e.data["block"], e.data["trial"]) for e in again}) > 0
    assert by[NoiseMeasure.RAW] > by[NoiseMeasure.PAIRED] > by[NoiseMeasure.AGAIN]
    assert by[NoiseMeasure.AGAIN] > by[NoiseMeasure.ADJUSTED]
    assert "less variance on blocks left out" in report.adjustment


def test_the_noise_is_shown_and_exported(begin: Begin) -> None:
    campaign = begin(spec(faster(), noise=0.05))
    campaign.run()
    report, place = noise_of(campaign), str(campaign.directory)
    output = CliRunner().invoke(app, ["show", "--all", "--state-dir", place]).output
    assert "Noise of the score" in output
    assert "compared within blocks" in output
    few = CliRunner().invoke(app, ["show", "--state-dir", place]).output
    assert "Noise of the score" not in few
    document = json.loads(CliRunner().invoke(app, ["show", "--json", "--state-dir", place]).output)
    assert document["noise"]["arms"] == report.arms
    assert [level["measure"] for level in document["noise"]["levels"]] == [*NoiseMeasure]
    assert document["noise"]["levels"][1]["variance"] == pytest.approx(report.levels[1].score)
    assert set(document["noise"]["levels"][0]["components"]) >= {"metadata", "small-write"}


def test_the_study_reads_a_copy(begin: Begin, tmp_path: Path) -> None:
    campaign = begin(spec(faster(), noise=0.05))
    campaign.run()
    before = {path: path.stat().st_mtime_ns for path in campaign.directory.glob("fstune.sqlite3")}
    with copied(campaign.directory) as store:
        (level,) = levels(store)
        others = robust(store)
    assert before == {path: path.stat().st_mtime_ns for path in before}
    assert level.report == noise_of(campaign)
    write_levels([level], tmp_path / "results.csv")
    with (tmp_path / "results.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["measure"] for row in rows] == [*NoiseMeasure]
    assert float(rows[0]["share"]) == 1.0
    write_robust(others, tmp_path / "robust.csv")
    for _, time, ratio, agreement, _ in summary(others):
        if time == "mean":
            assert ratio == agreement == 1.0


def test_robust_times_ignore_an_outlier() -> None:
    """A hundred operations of 10 ms, except that one took a second."""
    result = ComponentResult(
        elapsed_s=1.99, operations=100, bytes=0, p50_s=0.01, p95_s=0.01, p99_s=0.01, max_s=1.0
    )
    times = {name: time(result) for name, time in TIMES.items()}
    assert times.pop("mean") == pytest.approx(0.0199)
    assert all(time == pytest.approx(0.01) for time in times.values())
