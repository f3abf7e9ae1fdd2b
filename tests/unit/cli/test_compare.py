"""Comparing stored trials from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import workloads
from tuner.cli.app import app
from tuner.cli.compare import compare_command
from tuner.errors import SpecError
from tuner.report.compare import Sample

CAMPAIGN = """
name: compare
testbed: {simulated: {effects: [{parameter: cache_manager.daemons, low: 1, change: -0.2}]}}
spaces: {cache_manager: {name: openafs-cache-manager-fuse-1.8, only: [daemons]}}
workload: mixed-use
pilot: {blocks: 0}
search: {arms: 2, blocks_per_trial: 3, max_trials: 2}
budget: {wall_time: 15m}
certification: {blocks: 12}
"""


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("compare")
    file = directory / "campaign.yaml"
    file.write_text(CAMPAIGN)
    done = CliRunner().invoke(app, ["run", str(file), "--state-dir", str(directory)])
    assert done.exit_code == 0, done.output
    return directory


@pytest.mark.slow
def test_two_stored_trials_are_compared_by_pairs(state: Path) -> None:
    where = ["--state-dir", str(state)]
    done = CliRunner().invoke(app, ["compare", "last:0", "last:1", "--json", *where])
    assert done.exit_code == 0, done.output
    (comparison,) = json.loads(done.output)["comparisons"]
    assert comparison["paired"] is True
    assert comparison["percent"] == pytest.approx(-20.0, abs=2.0)
    result = CliRunner().invoke(app, ["compare", "last:0", "last:1", *where])
    assert "these blocks favor a trial selected by them from 2" in " ".join(result.output.split())


@pytest.mark.slow
def test_a_trial_that_is_not_there(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FSTUNE_STATE_DIR", str(state))
    done = CliRunner().invoke(app, ["compare", "last:0", "last:99"])
    assert "has no measurement of a trial 99" in str(done.exception)


def test_a_trial_of_too_few_blocks_is_refused_with_where_to_choose_another(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def one_block(
        campaign: str, trial: int, state_dir: Path | None, database: str | None
    ) -> Sample:
        return Sample(f"{campaign}:{trial}", (1.0,), ((campaign, 1),), among=2)

    monkeypatch.chdir(tmp_path)
    with pytest.raises(SpecError) as refusal:
        compare_command(one_block)(["last:0", "last:3"])
    assert str(refusal.value) == (
        "last:0: 1 complete block, at least 3 needed; "
        "choose another trial of 'fstune show last --all'"
    )


@pytest.mark.slow
def test_a_trial_of_a_workload_that_has_other_components_now_is_refused(tmp_path: Path) -> None:
    workload = tmp_path / "workload.yaml"
    workload.write_text(workloads.load("mixed-use").text)
    file, where = tmp_path / "campaign.yaml", ["--state-dir", str(tmp_path / "state")]
    file.write_text(CAMPAIGN.replace("mixed-use", "workload.yaml"))
    assert CliRunner().invoke(app, ["run", str(file), *where]).exit_code == 0
    workload.write_text(workload.read_text().replace("small-delete", "small-remove"))
    done = CliRunner().invoke(app, ["compare", "last:0", "last:1", *where])
    assert isinstance(done.exception, SpecError)
    assert f"workload {workload} no longer has the components that campaign" in str(done.exception)
