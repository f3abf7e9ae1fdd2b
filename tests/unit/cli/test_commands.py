"""Commands as users see them: output, error messages and exit statuses."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner

import tuner
from tests.unit.campaign.campaigns import failing, spec
from tests.unit.cli.conftest import Fstune, process_of
from tuner.cli import main
from tuner.cli.app import app
from tuner.cli.reference import commands
from tuner.errors import NO_IMPROVEMENT, SpecError
from tuner.states import CampaignState
from tuner.store import NewEvent, Store

pytestmark = pytest.mark.slow

CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\x1b]")


def exit_status(monkeypatch: pytest.MonkeyPatch, state: Path, *arguments: str) -> int:
    """Run the command in this process and return its exit status."""
    monkeypatch.setattr("sys.argv", ["fstune", *arguments, "--state-dir", str(state)])
    with pytest.raises(SystemExit) as end:
        main()
    assert isinstance(end.value.code, int)
    return end.value.code


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], ["run", "resume", "list", "show", "recommend", "cell", "--version"]),
        (["run"], ["campaign file", "Ctrl-C", "resume", "--state-dir", "FSTUNE_STATE_DIR"]),
        (["run"], ["is measured again. On a server"]),  # one paragraph in the source
        (["cell", "up"], ["unpacked privately, never installed"]),
        (["resume"], ["paused", "killed", "last"]),
        (["show"], ["trials", "last"]),
        (["recommend"], ["json", "flags", "text"]),
        (["cell"], ["up", "down", "status", "exec"]),
    ],
)
def test_help_teaches(arguments: list[str], words: list[str]) -> None:
    for option in ("-h", "--help"):
        result = CliRunner().invoke(app, [*arguments, option], env={"COLUMNS": "200"})
        assert result.exit_code == 0
        plain = re.sub(r"\x1b\[[0-9;]*m", "", result.output)
        assert [word for word in words if word not in plain] == []


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (
            "worker",
            ["'simulated'", "'cell' (those of", "'hosts@HOST'", "'toy' (queued", "'toy@HOST'"],
        ),
        ("serve", ["'simulated' (", "'cell' ("]),
    ],
)
def test_help_names_the_testbeds_of_every_kind_that_is_installed(
    environment: dict[str, str], root: Path, command: str, words: list[str]
) -> None:
    paths = f"{root}:{root / 'tests' / 'toy' / 'installed'}"
    variables = {**environment, "PYTHONPATH": paths, "COLUMNS": "400"}
    with process_of(variables, command, "--help") as process:
        output, _ = process.communicate(timeout=60)
    assert [word for word in words if word not in output] == []


def test_help_fits_80_columns_and_its_lines_end_without_blanks(fstune: Fstune) -> None:
    names = ["", "cell", "space", *(command.name for command in commands())]
    for name in names:
        result = fstune(*name.split(), "--help")
        assert result.returncode == 0
        lines = result.stdout.splitlines()
        assert [line for line in lines if re.search(r" $|…|<\w", line)] == []
        assert max(map(len, lines)) <= 80


@pytest.mark.parametrize("encoding", ["ascii", "utf-8"])
def test_help_in_a_file_has_the_encoding_of_the_output(
    environment: dict[str, str], encoding: str
) -> None:
    with process_of({**environment, "PYTHONIOENCODING": encoding}, "list", "--help") as process:
        output, errors = process.communicate(timeout=60)
    assert errors == ""
    assert output.isascii() == (encoding == "ascii")
    assert "postgresql://USER@HOST/NAME." in output


def test_version(fstune_process: Fstune) -> None:
    result = fstune_process("--version")
    assert (result.returncode, result.stdout) == (0, f"fstune {tuner.__version__}\n")


def test_a_whole_campaign_in_plain_lines(
    fstune: Fstune, fstune_process: Fstune, campaign_file: Path
) -> None:
    def text_of(*arguments: str, status: int = 0) -> str:
        done = fstune(*arguments)
        assert done.returncode == status
        assert CONTROL.findall(done.stdout + done.stderr) == []
        return done.stderr if status else done.stdout

    result = fstune_process("run", campaign_file)
    assert (result.returncode, result.stderr) == (0, "")
    (hint,) = re.findall(r"fstune report (\S+) --html FILE", result.stdout)
    assert text_of("report", hint).startswith("# Recommended")
    assert CONTROL.findall(result.stdout) == []
    lines = result.stdout.splitlines()
    moment = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ ")
    assert sum(bool(moment.match(line)) for line in lines) > 30
    for words in ("block 1 complete", "recommended:", "campaign finished", "Restored", "-p 200"):
        assert words in result.stdout

    assert "finished" in text_of("list")
    page = text_of("show")
    assert "baseline" in page
    (row,) = re.findall(r".* recommended: .* interval, on \d+ fresh blocks", page)
    assert re.search(r" \+\d+\.\d% +\+\d+\.\d% to \+\d+", row)
    assert "threads" in text_of("recommend")
    document = json.loads(text_of("recommend", "--format", "json"))
    assert isinstance(document["why"], list)
    configuration = document["configuration"]
    assert configuration["fileserver.threads"] >= 150
    flags = text_of("recommend", "--format", "flags")
    assert f"-p {configuration['fileserver.threads']}" in flags
    assert [line[0] for line in flags.splitlines()] == ["#", "-", "#"]
    entry = text_of("recommend", "--format", "bosconfig").splitlines()
    (options,) = [line.split()[2:] for line in entry if "/dafileserver" in line]
    assert options == flags.splitlines()[1].split()
    one = ("recommend", "--format", "openafs-server.conf", "--part")
    assert f"\np = {configuration['fileserver.threads']}\n" in text_of(*one, "fileserver")
    assert "has options of dafileserver only" in text_of(*one, "cache_manager", status=2)
    assert "choose one of fileserver, cache_manager" in text_of(*one, "printer", status=2)

    again = text_of("resume", status=4)
    assert again.count("\n") == 1
    assert "is finished; see 'fstune show" in again


def test_json_and_text_agree_when_nothing_is_better(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path, state = tmp_path / "campaign.json", tmp_path / "state"
    path.write_text(spec(noise=0.01).to_json())
    for arguments, status, words in (
        (["run", str(path)], 0, "none of 3 configurations"),
        (["recommend", "--format", "json"], NO_IMPROVEMENT, "no_improvement"),
        (
            ["recommend", "--format", "flags"],
            NO_IMPROVEMENT,
            "keep these options, which are in force",
        ),
        (["recommend"], NO_IMPROVEMENT, "No improvement shown"),
    ):
        assert exit_status(monkeypatch, state, *arguments) == status
        assert words in capsys.readouterr().out


def test_errors_are_one_line_with_a_status_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    state = tmp_path / "state"
    bad = tmp_path / "bad.yaml"
    bad.write_text("name: x\n")
    wrong = tmp_path / "wrong.yaml"
    document = json.loads(spec().to_json()) | {"workload": "mixed-uze"}
    wrong.write_text(json.dumps(document))
    Store.open(state).close()
    for arguments, status, message in (
        (["run", str(tmp_path / "none.yaml")], 2, "no such campaign file"),
        (["run", str(bad)], 2, f"{bad}: spaces: missing"),
        (["run", str(wrong)], 2, f"{wrong}: workload mixed-uze"),
        (["resume"], 2, "there is no campaign"),
        (["show", "nightly"], 2, "there is no campaign"),
        (["show"], 2, "; start one: fstune run FILE"),
        (["resume"], 2, "; start one: fstune run FILE"),
        (["recommend"], 2, "; start one: fstune run FILE"),
    ):
        assert exit_status(monkeypatch, state, *arguments) == status
        output = capsys.readouterr()
        assert output.out == ""
        assert output.err.startswith("fstune: ")
        assert message in output.err
        assert output.err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["list", "--state", "nix"], "Invalid value for '--state': 'nix' is not one of"),
        (["token", "create", "me", "--scope", "all"], "'--scope': 'all' is not one of"),
    ],
)
def test_a_wrong_value_of_an_option_is_named_without_a_librarys_words(
    arguments: list[str], reason: str
) -> None:
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == SpecError.exit_code
    assert reason in done.stderr


def test_references_and_campaigns_without_an_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    state = tmp_path / "state"
    text = spec().to_json()
    with Store.open(state) as store:
        identifiers = [
            store.create_campaign("c", text, 1, datetime(2026, 3, day, tzinfo=UTC)).id
            for day in (1, 2)
        ]
    assert exit_status(monkeypatch, state, "show", "2026") == 2
    assert "2 identifiers begin with 2026" in capsys.readouterr().err
    assert exit_status(monkeypatch, state, "show", "20260301") == 0
    assert identifiers[0] in capsys.readouterr().out
    assert exit_status(monkeypatch, state, "recommend", "20260302") == 2
    message = capsys.readouterr().err
    assert "no answer yet" in message
    assert "fstune resume" in message
    with Store.open(state) as store:
        event = NewEvent(datetime.now(UTC), "campaign-started", "started")
        store.move_campaign(identifiers[1], CampaignState.RUNNING, "", event)
    assert exit_status(monkeypatch, state, "recommend") == 2
    assert "no process runs it any more" in capsys.readouterr().err


def test_a_campaign_can_be_shown_without_its_workload_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    state = tmp_path / "state"
    text = spec(workload=str(tmp_path / "gone.yaml")).to_json()
    with Store.open(state) as store:
        store.create_campaign("old", text, 1, datetime(2026, 3, 1, tzinfo=UTC))
    assert exit_status(monkeypatch, state, "show") == 0
    assert "old" in capsys.readouterr().out


def test_a_campaign_that_halts_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path, state = tmp_path / "campaign.json", tmp_path / "state"
    path.write_text(spec(failing("workload", low=1), found={"fileserver.threads": 9}).to_json())
    assert exit_status(monkeypatch, state, "run", str(path)) == 9
    output = capsys.readouterr()
    assert output.err.startswith("fstune: the campaign halted: ")
    assert "simulated mismatch" in output.err
    assert output.err.count("\n") == 1
    assert "Restored" in output.out
    assert exit_status(monkeypatch, state, "list") == 0
    assert "failed" in capsys.readouterr().out


def test_a_state_directory_that_cannot_be_used(
    fstune: Fstune, state: Path, campaign_file: Path
) -> None:
    state.write_text("a file is in its place")
    result = fstune("run", campaign_file)
    assert result.returncode == 5
    assert str(state) in result.stderr
    assert result.stderr.count("\n") == 1
