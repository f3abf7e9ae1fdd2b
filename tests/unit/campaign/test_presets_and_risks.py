"""Published presets as first trials, and what a recommendation reports about risky settings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tuner.cli.app import app
from tuner.spec.space_section import SpaceSection, load_space
from tuner.store import Store

pytestmark = pytest.mark.slow

CAMPAIGN = """
name: presets
testbed: {{simulated: {{effects: [{effect}], found: {found}}}}}
spaces:
  fileserver: {server}
  cache_manager: {client}
workload: mixed-use
pilot: {{blocks: 0}}
search: {{arms: 4, max_trials: {trials}}}
budget: {{wall_time: 10m, measurements: 20}}
stop: certified
"""


def _run(directory: Path, **text: object) -> tuple[int, str]:
    usual = {
        "effect": "{parameter: fileserver.threads, low: 1, change: -0.01}",
        "found": "{}",
        "server": "openafs-fileserver-1.8",
        "client": "openafs-cache-manager-fuse-1.8",
        "trials": 4,
    }
    file = directory / "campaign.yaml"
    file.write_text(CAMPAIGN.format(**(usual | text)))
    done = CliRunner().invoke(app, ["run", str(file), "--state-dir", str(directory / "state")])
    return done.exit_code, f"{done.output}{done.exception or ''}"


def test_presets_are_tried_first_and_named(tmp_path: Path) -> None:
    status, output = _run(
        tmp_path,
        server="{name: openafs-fileserver-1.8, presets: [large, debian-newcell]}",
        client="{name: openafs-cache-manager-fuse-1.8, presets: [nilcons]}",
    )
    assert status == 0, output
    with Store.open(tmp_path / "state") as store:
        trials = store.trials(store.campaign("last").id)
    assert [t.origin for t in trials[1:4]] == [
        "preset large",
        "preset debian-newcell",
        "preset nilcons",
    ]
    assert trials[1].flags["fileserver"] == ("-L",)
    assert trials[3].flags == {
        "fileserver": (),
        "cache_manager": ("-chunksize", "22", "-daemons", "6"),
    }
    assert trials[4].origin == "model"


def test_an_unknown_preset_names_the_nearest(tmp_path: Path) -> None:
    status, output = _run(tmp_path, server="{name: openafs-fileserver-1.8, presets: [larg]}")
    assert status != 0
    assert "no preset 'larg'; did you mean 'large'?" in output
    assert not (tmp_path / "state").exists()


def test_naming_a_preset_allows_what_it_sets(tmp_path: Path) -> None:
    status, output = _run(tmp_path, server="{name: openafs-fileserver-1.8, presets: [jumbo]}")
    assert status == 0, output
    with Store.open(tmp_path / "state") as store:
        trials = store.trials(store.campaign("last").id)
    assert trials[1].origin == "preset jumbo"
    assert trials[1].configuration.as_dict()["fileserver.jumbograms"] is True
    section = SpaceSection(name="openafs-fileserver-1.8", presets=("jumbo",))
    searched = {p.name for p in load_space(section, "fileserver").searched}
    plain = load_space(SpaceSection(name="openafs-fileserver-1.8"), "fileserver")
    assert searched == {p.name for p in plain.searched} | {"jumbograms"}


def test_a_recommendation_tells_its_risks(tmp_path: Path) -> None:
    status, output = _run(
        tmp_path,
        effect="{parameter: fileserver.jumbograms, value: true, change: -0.3}",
        server="{name: openafs-fileserver-1.8, only: [jumbograms], allow_risk: [availability], "
        "presets: [jumbo]}",
        client="{name: openafs-cache-manager-fuse-1.8, only: [daemons]}",
        trials=1,
    )
    assert status == 0, output
    assert "fileserver.jumbograms = on puts availability at risk" in " ".join(output.split())
    printed = CliRunner().invoke(
        app, ["recommend", "--format", "json", "--state-dir", str(tmp_path / "state")]
    )
    notes = json.loads(printed.output)["notes"]
    assert sum("puts availability at risk" in note for note in notes) == 1


def test_a_recommendation_tells_the_risk_of_a_setting_left_unset(tmp_path: Path) -> None:
    status, output = _run(
        tmp_path,
        effect="{parameter: fileserver.sync_behavior, value: always, change: 0.3}",
        found="{fileserver.sync_behavior: always}",
        server="{name: openafs-fileserver-1.8, only: [sync_behavior], allow_risk: [durability]}",
        client="{name: openafs-cache-manager-fuse-1.8, only: [daemons]}",
        trials=2,
    )
    assert status == 0, output
    note = "leaving fileserver.sync_behavior unset, which was always, puts durability at risk"
    assert note in " ".join(output.split())
