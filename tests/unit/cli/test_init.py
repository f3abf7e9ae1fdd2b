"""``fstune init``: its files can be run unchanged, and invalid answers leave nothing behind."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml

from tests.toy.kind import TOY
from tests.toy.start import ToyStart
from tests.unit.cli.conftest import Fstune
from tests.unit.cli.test_terminal import terminal
from tuner.errors import StoreError
from tuner.services.kinds import _check
from tuner.services.openafs.kind import OPENAFS
from tuner.services.start import Question
from tuner.spec.campaign import read_spec
from tuner.store import Store

pytestmark = pytest.mark.slow

SIMULATED = ("init", "--yes", "--start", "simulated")


def test_its_files_can_be_run_unchanged(fstune: Fstune, tmp_path: Path, state: Path) -> None:
    file = tmp_path / "mine.yaml"
    done = fstune(*SIMULATED, file, "--time", "5m", "--name", "mine", "--presets", "no")
    assert done.returncode == 0, done.stderr
    assert done.stdout.rstrip().endswith(f"fstune run {file}")
    assert [path.name for path in tmp_path.iterdir()] == ["mine.yaml"]
    ran = fstune("run", file, "--quiet")
    assert ran.returncode == 0, ran.stderr
    with Store.open(state) as store:
        (campaign,) = store.campaigns()
    assert campaign.name == "mine"
    assert campaign.recommendation is not None


def test_every_choice_is_in_the_file_and_printed_with_its_reason(
    fstune: Fstune, tmp_path: Path
) -> None:
    file = tmp_path / "mine.yaml"
    answers = ("--time", "3h", "--workload", "varmail", "--allow-risk", "availability")
    done = fstune(*SIMULATED, file, *answers)
    assert done.returncode == 0, done.stderr
    spec = read_spec(file)
    assert spec.budget.wall_time == 3 * 3600.0
    assert spec.workload.name == "varmail"
    assert spec.spaces["cache_manager"].allow_risk == ("availability",)
    # More than an hour: the campaign heeds its pilot.
    assert not spec.pilot.override
    for word in ("3h", "varmail", "availability", *spec.spaces["cache_manager"].presets):
        assert word in done.stdout.partition("Wrote")[0]


def test_first_guesses_put_nothing_at_stake_that_was_not_allowed(
    fstune: Fstune, tmp_path: Path
) -> None:
    if os.geteuid() != 0:
        pytest.skip("a private cell needs root")
    file = tmp_path / "mine.yaml"
    done = fstune("init", "--yes", "--start", "cell", file, "--cell-clients", "4")
    if "not possible on this machine" in done.stderr:
        pytest.skip(done.stderr)
    document = yaml.safe_load(file.read_text())
    assert document["testbed"]["cell"]["clients"] == 4
    assert document["workload"] == "many-clients"
    assert "jumbo" not in document["spaces"]["fileserver"]["presets"]
    assert "large" in document["spaces"]["fileserver"]["presets"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--time", "soon"), "--time: 'soon': write a duration"),
        (("--workload", "mixed"), "--workload: workload mixed: no workload and no file"),
        (("--allow-risk", "danger"), "--allow-risk: 'danger': choose from"),
        (("--presets", "maybe"), "--presets: 'maybe': write yes or no"),
        (("--start", "cloud"), "--start: 'cloud': choose one of cell, hosts, simulated"),
        (("--start", "hosts"), "--server: missing"),
        (("--start", "hosts", "--server", "-oProxy"), "--server: '-oProxy': not a host name"),
        (("--name", "a/b"), "fstune: --name: use 1 to 80 letters"),
    ],
)
def test_an_answer_that_cannot_be_used_is_named_and_nothing_is_written(
    fstune: Fstune, tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    done = fstune(*SIMULATED, tmp_path / "mine.yaml", *arguments)
    assert done.returncode == 2, done.stderr
    assert message in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("start", "option", "owner"),
    [
        ("simulated", "--server", "hosts"),
        ("simulated", "--cell-clients", "cell"),
        ("hosts", "--cell-clients", "cell"),
    ],
)
def test_an_option_of_another_start_is_refused(
    fstune: Fstune, tmp_path: Path, start: str, option: str, owner: str
) -> None:
    file = tmp_path / "mine.yaml"
    done = fstune("init", "--yes", "--start", start, file, option, "3")
    assert done.returncode == 2
    assert done.stderr == f"fstune: {option} belongs to --start {owner}, not to --start {start}\n"
    assert list(tmp_path.iterdir()) == []


def test_no_file_is_replaced_unasked(fstune: Fstune, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("precious\n")
    refused = fstune(*SIMULATED, file)
    assert refused.returncode != 0
    assert "give --force to replace it" in refused.stderr
    assert file.read_text() == "precious\n"
    assert fstune(*SIMULATED, file, "--force").returncode == 0
    assert read_spec(file).name == "simulated"


def test_without_a_terminal_nothing_is_asked(fstune: Fstune, tmp_path: Path) -> None:
    done = fstune("init", tmp_path / "mine.yaml")
    assert done.returncode == 2
    assert "give --yes" in done.stderr


def test_a_person_is_asked_again_and_before_a_file_is_replaced(
    environment: dict[str, str], tmp_path: Path
) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("precious\n")
    with terminal(["init", str(file), "--workload", "varmail"], environment) as screen:

        def answer(to: str, line: str) -> None:
            screen.until(to)
            os.write(screen.master, f"{line}\n".encode())

        answer("Replace it? [y/N]", "y")
        answer("What should be tuned?", "cloud")
        answer("choose one of", "simulated")
        answer("[30m] >", "1d1d")
        answer("write each unit once", "10m")
        answer("[yes] >", "")
        answer("[none] >", "")
        assert screen.to_the_end() == 0, screen.output
    assert "Which workload" not in screen.output
    assert read_spec(file).budget.wall_time == 600.0
    assert [path.name for path in tmp_path.iterdir()] == ["mine.yaml"]


def test_the_workloads_are_listed_once_however_often_a_wrong_one_is_named(
    environment: dict[str, str], tmp_path: Path
) -> None:
    arguments = ["init", str(tmp_path / "mine.yaml"), "--start", "simulated", "--time", "10m"]
    with terminal(arguments, environment) as screen:
        screen.until("[mixed-use] >")
        os.write(screen.master, b"mixed\n")
        screen.until("see 'fstune workload list'; did you mean 'mixed-use'?")
        os.write(screen.master, b"\x03")
        assert screen.to_the_end() == 130, screen.output
    assert screen.output.count("webserver") == 1


def test_ctrl_c_leaves_no_file(environment: dict[str, str], tmp_path: Path) -> None:
    with terminal(["init", str(tmp_path / "mine.yaml")], environment) as screen:
        screen.until("> ")
        os.write(screen.master, b"\x03")
        assert screen.to_the_end() == 130, screen.output
    # The shell's prompt begins on a line of its own.
    assert screen.output.endswith("\n")
    assert list(tmp_path.iterdir()) == []


def test_the_end_of_input_is_told_on_a_line_of_its_own(
    environment: dict[str, str], tmp_path: Path
) -> None:
    with terminal(["init", str(tmp_path / "mine.yaml")], environment) as screen:
        screen.until("\n  You can start over")
        screen.until("> ")
        os.write(screen.master, b"\x04")
        assert screen.to_the_end() == 2, screen.output
    assert "\nfstune: standard input ended before the last question" in screen.output
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_cannot_be_written_is_told_before_the_questions(
    fstune: Fstune, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tuner.cli.init.os.access", lambda *_: False)  # root may write anywhere
    done = fstune("init", tmp_path / "mine.yaml")
    assert done.returncode == StoreError.exit_code
    assert done.stderr == f"fstune: {tmp_path}: cannot be written\n"


@pytest.mark.parametrize(
    ("name", "question", "message"),
    [("toy", "place", ""), ("cell", "place", "'cell'"), ("toy", "force", "'force'")],
)
def test_starts_of_other_packages_must_not_reuse_names(
    name: str, question: str, message: str
) -> None:
    class Other(ToyStart):
        questions = (Question(question, "Where?", "It is kept there."),)

    Other.name = name
    kind = type(TOY)(TOY.name, TOY.parts, TOY.required, TOY.types, starts=(Other(),))
    if not message:
        assert _check(kind, (OPENAFS,)) is kind
        return
    with pytest.raises(ValueError, match=message):
        _check(kind, (OPENAFS,))
