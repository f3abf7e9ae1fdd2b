"""The examples work: simulated ones are run, those for real hosts are checked without hosts."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from tuner.cli.app import app
from tuner.services.kind import Needs
from tuner.services.openafs.kind import HostsType
from tuner.services.openafs.testbed_file import read_testbed

EXAMPLES = Path(__file__).parents[2] / "examples"
FILES = sorted(EXAMPLES.glob("*.yaml"))
TESTBEDS = [file for file in FILES if file.stem.endswith("-testbed")]
SIMULATED = [file for file in FILES if file.stem.startswith("simulated-")]
CAMPAIGNS = [file for file in FILES if file not in TESTBEDS]


def _name(file: Path) -> str:
    return file.stem


@pytest.mark.parametrize("file", SIMULATED, ids=_name)
def test_a_simulated_example_is_run_to_its_answer(file: Path, tmp_path: Path) -> None:
    state = ["--state-dir", str(tmp_path)]
    ran = CliRunner().invoke(app, ["run", str(file), "--quiet", *state], catch_exceptions=False)
    assert ran.exit_code == 0, ran.output
    answer = CliRunner().invoke(app, ["recommend", "--format", "json", *state])
    nothing_to_gain = file.stem == "simulated-no-gain"
    assert answer.exit_code == (3 if nothing_to_gain else 0), answer.output
    verdict = json.loads(answer.stdout)["answer"]
    assert verdict == ("no_improvement" if nothing_to_gain else "recommended")


def test_the_documented_comparison_is_what_its_example_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (EXAMPLES.parent / "docs" / "campaigns.md").read_text()
    _, _, section = text.partition("the output of [examples/simulated-compare.yaml]")
    documented = [line.split() for line in section.split("```")[1].splitlines() if line]
    assert len(documented) > 6
    monkeypatch.setenv("COLUMNS", "160")
    state = ["--state-dir", str(tmp_path)]
    run = ["run", str(EXAMPLES / "simulated-compare.yaml"), "--quiet", *state]
    assert CliRunner().invoke(app, run, catch_exceptions=False).exit_code == 0
    output = CliRunner().invoke(app, ["show", *state], catch_exceptions=False).output
    lines = [line.split() for line in output.splitlines()]
    assert [line for line in documented if line not in lines] == []


@pytest.mark.parametrize("file", CAMPAIGNS, ids=_name)
def test_an_example_campaign_is_valid(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_for: list[str] = []

    # Stands in for connecting to the hosts of a testbed file, which do not exist.
    def rehearse(of: HostsType, section: str, needs: Needs, state_directory: Path) -> None:
        looked_for.append(section)

    monkeypatch.setattr(HostsType, "rehearse", rehearse)
    done = CliRunner().invoke(app, ["campaign", "check", str(file), "--state-dir", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert "the file is valid" in done.output
    hosts = yaml.safe_load(file.read_text()).get("testbed", {}).get("hosts")
    assert looked_for == ([] if hosts is None else [str(EXAMPLES / hosts)])


@pytest.mark.parametrize("file", TESTBEDS, ids=_name)
def test_an_example_testbed_is_valid_and_used(file: Path) -> None:
    assert read_testbed(file).clients
    users = [yaml.safe_load(other.read_text()).get("testbed", {}) for other in CAMPAIGNS]
    assert file.name in [section.get("hosts") for section in users]


def test_the_index_has_every_example() -> None:
    names = set(re.findall(r"\]\(([\w.-]+\.yaml)\)", (EXAMPLES / "README.md").read_text()))
    assert names == {file.name for file in FILES}
