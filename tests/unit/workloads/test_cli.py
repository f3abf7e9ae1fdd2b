"""The workload commands: their output, and that a failed run leaves nothing behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

import workloads
from tuner.cli.workload import app
from tuner.errors import SpecError, WorkloadError

pytestmark = pytest.mark.slow

RUNNER = CliRunner()


def _say(*words: str) -> str:
    result = RUNNER.invoke(app, list(words), env={"COLUMNS": "200"})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture
def own(tmp_path: Path, mapping: dict[str, Any]) -> Path:
    """Return a workload file."""
    path = tmp_path / "own.yaml"
    path.write_text(yaml.safe_dump(mapping))
    return path


def test_every_packaged_workload_is_listed_shown_and_good() -> None:
    listed, checked = _say("list"), _say("check")
    for name in workloads.packaged():
        assert name in listed
        assert f"{name}: valid; " in checked
        text = _say("show", name)
        assert "component" in text
        assert "stage " in text


def test_showing_says_how_large_and_how_often() -> None:
    text = _say("show", "swbuild", "--scale", "0.1")
    assert "3000 operations, 70% stat, 7% rewrite" in text
    assert "(warm-up)" in text
    document = json.loads(_say("show", "office", "--json"))
    assert workloads.parse(document).name == "office"


def test_a_run_shows_times_and_leaves_nothing(own: Path, tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir()
    text = _say("run", str(own), "--dir", str(place))
    assert "weighted geometric mean of the times" in text
    assert "stage read is meant for a cold cache" in text
    assert list(place.iterdir()) == []


def test_two_runs_with_one_seed_do_the_same(own: Path, tmp_path: Path) -> None:
    def sequence(seed: int) -> dict[str, str]:
        words = ("run", str(own), "--dir", str(tmp_path), "--seed", str(seed), "--json")
        digest: dict[str, str] = json.loads(_say(*words))["operations_sha256"]
        return digest

    assert sequence(1) == sequence(1)
    assert sequence(2) != sequence(1)


def test_a_wrong_file_is_one_line(own: Path, tmp_path: Path) -> None:
    own.write_text(own.read_text().replace("processes: 2", "processes: 0"))
    with pytest.raises(SpecError, match=r"own\.yaml: processes: must be between 1 and"):
        _say("check", str(own))
    own.write_text("{")
    with pytest.raises(SpecError, match="not YAML"):
        _say("show", str(own))
    with pytest.raises(SpecError, match="no workload and no file"):
        _say("show", "nothing")
    with pytest.raises(SpecError, match="no such directory"):
        _say("run", "mixed-use", "--dir", str(tmp_path / "absent"))


def test_a_failed_run_is_named_and_removed(
    own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "place"
    place.mkdir()

    def refuse(path: str, target: str) -> None:
        raise PermissionError(13, "Permission denied", path)

    with monkeypatch.context() as patched:
        patched.setattr("workloads.names.os.link", refuse)
        changed = yaml.safe_load(own.read_text())
        changed["stages"][1]["phases"][1]["operation"] = "link"
        own.write_text(yaml.safe_dump(changed))
        with pytest.raises(WorkloadError, match=r"os-error: link .*: Permission denied"):
            _say("run", str(own), "--dir", str(place))
    assert os.listdir(place) == []


def _signalled(own: Path, place: Path, number: int) -> int:
    """Send a signal to a run once it has made a file; return its exit status."""
    place.mkdir()
    document = yaml.safe_load(own.read_text())
    document["stages"][0]["phases"][-1]["rate_per_s"] = 0.5
    slow = own.with_name("slow.yaml")
    slow.write_text(yaml.safe_dump(document))
    command = [sys.executable, "-c", "from tuner.cli import main; main()", "workload", "run"]
    with subprocess.Popen(
        [*command, str(slow), "--dir", str(place)], stderr=subprocess.PIPE, text=True
    ) as process:
        while not [path for path in place.glob("fstune-*/**/f*") if path.is_file()]:
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(number)
        process.communicate(timeout=60)
    return process.returncode


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_stopped_run_leaves_nothing(own: Path, tmp_path: Path, number: int) -> None:
    place = tmp_path / "place"
    assert _signalled(own, place, number) == 130
    assert list(place.iterdir()) == []


def test_the_next_run_names_what_a_killed_one_left(own: Path, tmp_path: Path) -> None:
    place = tmp_path / "a place"
    assert _signalled(own, place, signal.SIGKILL) == -signal.SIGKILL
    (left,) = place.iterdir()
    hidden = place / ".fstune-try-0123abcd"
    for other in (hidden, place / "fstune-try-mine", place / "fstune-c1-b1"):
        other.mkdir()
    result = RUNNER.invoke(app, ["run", str(own), "--dir", str(place), "--json"])
    assert result.exit_code == 0, result.output
    assert result.stderr == (
        f"fstune: files of 2 other runs are in {place}; unless one is running, "
        f"remove them: rm -r '{hidden}' '{left}'\n"
    )
    assert json.loads(result.stdout)["workload"]
    assert left.is_dir()
    assert hidden.is_dir()


def test_a_key_that_is_there_twice_is_refused(own: Path) -> None:
    own.write_text(own.read_text() + "\nprocesses: 9\n")
    with pytest.raises(SpecError, match="processes"):
        _say("check", str(own))


def test_the_engine_as_one_file(own: Path, tmp_path: Path) -> None:
    file = tmp_path / "workloads.pyz"
    output = _say("engine", str(file))
    document = json.loads(_say("run", str(own), "--dir", str(tmp_path), "--json"))
    assert document["engine"]["sha256"] in output
    assert document["verified"]["files"] > 0
    help_page = subprocess.run([sys.executable, file, "--help"], capture_output=True, check=True)
    assert b"Run a file workload" in help_page.stdout
    with pytest.raises(SpecError, match=r"absent.*cannot be written: No such file"):
        _say("engine", str(tmp_path / "absent" / "workloads.pyz"))
