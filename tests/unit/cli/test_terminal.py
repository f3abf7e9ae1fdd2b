"""What a campaign shows on a terminal and through pipes, and the state it leaves them in."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import shlex
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import typer
import yaml

from tests.recommending import recommending, specification
from tests.unit.campaign.campaigns import THREADS, failing, spec
from tests.unit.cli.conftest import COMMAND, Fstune
from tuner.cli import ending
from tuner.cli import run as commands
from tuner.errors import INTERRUPTED, CampaignHalted, StoreError
from tuner.model import Answer
from tuner.run.runner import RunOutcome
from tuner.states import BlockState, CampaignState
from tuner.store import Store

pytestmark = pytest.mark.slow

HIDE, SHOW = "\x1b[?25l", "\x1b[?25h"


@dataclass
class Terminal:
    """A terminal with a process in it; ``output``: everything written to it so far."""

    process: subprocess.Popen[bytes]
    master: int
    output: str = ""

    def read(self, wait_s: float) -> bool:
        """Read the available output; return False at the end."""
        ready, _, _ = select.select([self.master], [], [], wait_s)
        if not ready:
            return True
        try:
            data = os.read(self.master, 65536)
        except OSError:  # the other side is closed
            return False
        self.output += data.decode(errors="replace")
        return bool(data)

    def until(self, words: str, times: int = 1) -> None:
        deadline = time.monotonic() + 60.0
        while self.output.count(words) < times:
            assert time.monotonic() < deadline, self.output[-3000:]
            assert self.read(0.2), self.output[-3000:]

    def to_the_end(self) -> int:
        while self.read(5.0):
            if self.process.poll() is not None and not self.read(0.0):
                break
        return self.process.wait()


@contextmanager
def terminal(
    arguments: list[str],
    environment: dict[str, str],
    rows: int = 40,
    columns: int = 120,
    command: Sequence[str] = COMMAND,
) -> Iterator[Terminal]:
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def own_terminal() -> None:
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    process = subprocess.Popen(
        [*command, *arguments],
        env=environment,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        preexec_fn=own_terminal,
    )
    os.close(slave)
    try:
        yield Terminal(process, master)
    finally:
        process.kill()
        process.wait()
        os.close(master)


def last(state: Path) -> tuple[CampaignState, list[BlockState]]:
    with Store.open(state) as store:
        campaign = store.campaign("last")
        return campaign.state, [b.state for b in store.blocks(campaign.id)]


def test_the_live_view_is_drawn_updated_and_ends_with_the_cursor_shown(
    campaign_file: Path, environment: dict[str, str], state: Path
) -> None:
    with terminal(["run", str(campaign_file)], environment) as screen:
        assert screen.to_the_end() == 0
    assert screen.output.count(HIDE) >= 1
    assert screen.output.rindex(SHOW) > screen.output.rindex(HIDE)
    assert "measurements" in screen.output
    assert "Faster by" in screen.output
    assert "Restored" in screen.output
    # There are no plain log lines.
    assert not re.search(r"^\d{4}-\d\d-\d\dT", screen.output, re.MULTILINE)


def test_ctrl_c_on_a_terminal_pauses_and_leaves_it_in_order(
    long_file: Path, environment: dict[str, str], state: Path
) -> None:
    with terminal(["run", str(long_file)], environment) as screen:
        before = termios.tcgetattr(screen.master)
        screen.until("Faster by", 3)
        os.write(screen.master, b"\x03")
        assert screen.to_the_end() == 130
        assert termios.tcgetattr(screen.master) == before
    assert screen.output.rindex(SHOW) > screen.output.rindex(HIDE)
    assert "continue with: fstune resume" in screen.output
    assert "Restored" in screen.output
    campaign, blocks = last(state)
    assert campaign is CampaignState.PAUSED
    assert BlockState.RUNNING not in blocks


def test_closing_the_terminal_pauses_and_restores(
    long_file: Path, environment: dict[str, str], state: Path
) -> None:
    with terminal(["run", str(long_file)], environment) as screen:
        screen.until("Faster by", 2)
        os.close(screen.master)
        screen.process.wait()
        screen.master = os.open(os.devnull, os.O_RDONLY)
    campaign, blocks = last(state)
    assert campaign is CampaignState.PAUSED
    assert BlockState.RUNNING not in blocks


def test_ctrl_z_shows_the_cursor_and_fg_draws_anew(
    long_file: Path, environment: dict[str, str]
) -> None:
    """In a shell: only its jobs can be stopped."""
    shell = ("bash", "--norc", "--noprofile", "-i")
    with terminal([], environment | {"PS1": "$ "}, command=shell) as screen:
        line = shlex.join([*COMMAND, "run", str(long_file)])
        os.write(screen.master, f"{line}\n".encode())
        screen.until("Faster by", 2)
        os.write(screen.master, b"\x1a")
        screen.until("Stopped")
        assert screen.output.rindex(SHOW) > screen.output.rindex(HIDE)
        screen.output = ""
        os.write(screen.master, b"fg\n")
        screen.until("Faster by", 2)
        # Drawn over the shell's lines otherwise.
        assert "\x1b[2J" in screen.output.partition("Faster by")[0]
        os.write(screen.master, b"\x03")
        screen.until("paused; continue with")


def test_ctrl_backslash_ends_with_the_cursor_shown(
    long_file: Path, environment: dict[str, str]
) -> None:
    with terminal(["run", str(long_file)], environment) as screen:
        screen.until("Faster by", 2)
        os.write(screen.master, b"\x1c")
        assert screen.to_the_end() == -signal.SIGQUIT, screen.output
    assert screen.output.rindex(SHOW) > screen.output.rindex(HIDE)


@pytest.mark.parametrize("name", ["FORCE_COLOR", "CLICOLOR_FORCE"])
def test_a_log_with_colours_has_plain_lines_too(
    fstune: Fstune, campaign_file: Path, environment: dict[str, str], name: str
) -> None:
    """As in continuous integration."""
    environment[name] = "1"
    done = fstune("run", campaign_file)
    assert done.returncode == 0, done.stderr
    assert HIDE not in done.stdout
    assert re.search(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ block 1 complete", done.stdout, re.M)
    # Its answer is in bold.
    assert re.search(r"^\x1b\[1[^m]*m.*Recommended", done.stdout, re.M)


@pytest.mark.parametrize(
    ("variables", "coloured"),
    [
        ({}, False),
        ({"CLICOLOR_FORCE": "1"}, True),
        ({"CLICOLOR_FORCE": "0"}, False),
        ({"FORCE_COLOR": "1"}, True),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
    ],
)
def test_lines_in_a_file_have_no_blanks_at_their_ends_and_colours_only_if_asked_for(
    fstune: Fstune,
    finished: str,
    environment: dict[str, str],
    variables: dict[str, str],
    coloured: bool,
) -> None:
    plain = {}
    for command in ("show", "recommend", "list"):
        done = fstune(command)
        assert not re.search(r"[ ]$", done.stdout, re.M), done.stdout
        assert "\x1b" not in done.stdout
        plain[command] = done.stdout
    environment |= variables
    for command, text in plain.items():
        output = fstune(command).stdout
        assert ("\x1b[" in output) is coloured
        assert re.sub(r"\x1b\[[\d;]*m", "", output) == text


def test_a_dumb_terminal_gets_plain_lines(campaign_file: Path, environment: dict[str, str]) -> None:
    with terminal(["run", str(campaign_file)], environment | {"TERM": "dumb"}) as screen:
        assert screen.to_the_end() == 0
    assert "\x1b" not in screen.output
    assert re.search(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ block 1 complete", screen.output, re.M)


def test_lines_come_as_they_happen(long_file: Path, environment: dict[str, str]) -> None:
    """A pipe also receives lines before the campaign is over."""
    with subprocess.Popen(
        [*COMMAND, "run", str(long_file)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(12)]
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        rest, complaint = process.communicate()
    assert process.returncode == 130
    assert all(line.endswith("\n") for line in lines)
    assert "Restored" in rest
    assert re.fullmatch(
        r"fstune: SIGTERM: stopping: .*\nfstune: paused; continue with: fstune resume \S+\n",
        complaint,
    )


def test_a_closed_pipe_does_not_end_the_campaign(
    campaign_file: Path, environment: dict[str, str], state: Path
) -> None:
    """As with ``fstune run FILE | head -3``."""
    assert unread(campaign_file, environment) == (0, "")
    campaign, blocks = last(state)
    assert campaign is CampaignState.FINISHED
    assert set(blocks) == {BlockState.COMPLETE}
    with Store.open(state) as store:
        kinds = [e.kind for e in store.events(store.campaign("last").id)]
    assert kinds.count("restored") == 2


def unread(
    file: Path,
    environment: dict[str, str],
    number: signal.Signals | None = None,
    options: tuple[str, ...] = (),
) -> tuple[int, str]:
    """Run a campaign of whose output three lines are read, or none with ``--quiet``, and send it
    the signal then; return its status and what it prints on standard error.
    """
    with subprocess.Popen(
        [*COMMAND, "run", str(file), *options],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        for _ in range(0 if options else 3):
            process.stdout.readline()
        process.stdout.close()
        if number is not None:
            process.send_signal(number)
        complaints = process.stderr.read()
    return process.returncode, complaints


@pytest.fixture
def halting_file(tmp_path: Path) -> Path:
    """Return the file of a campaign whose baseline cannot be started."""
    path = tmp_path / "halting.yaml"
    document = spec(failing("start", low=1), found={THREADS: 9})
    path.write_text(yaml.safe_dump(document.model_dump(mode="json", exclude_none=True)))
    return path


@pytest.mark.parametrize("options", [(), ("--quiet",)])
def test_a_halt_is_reported_through_a_closed_pipe(
    halting_file: Path, environment: dict[str, str], options: tuple[str, ...]
) -> None:
    status, complaints = unread(halting_file, environment, options=options)
    assert status == CampaignHalted.exit_code
    assert re.fullmatch(r"fstune: .*baseline.*\n", complaints)


def test_a_pause_is_reported_through_a_closed_pipe(
    long_file: Path, environment: dict[str, str]
) -> None:
    status, complaints = unread(long_file, environment, signal.SIGTERM)
    assert status == INTERRUPTED
    assert complaints.splitlines()[-1].startswith("fstune: paused; continue with: fstune resume ")


def test_the_status_is_right_with_errors_in_the_closed_pipe_too(
    halting_file: Path, environment: dict[str, str]
) -> None:
    """As with ``fstune run FILE 2>&1 | head -1``."""
    with subprocess.Popen(
        [*COMMAND, "run", str(halting_file)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
    assert process.returncode == CampaignHalted.exit_code


@pytest.mark.parametrize("together", [False, True], ids=["output", "errors-too"])
def test_a_halt_is_reported_with_its_status_on_a_full_disk(
    halting_file: Path, environment: dict[str, str], together: bool
) -> None:
    done = onto_a_full_disk(environment, "run", halting_file, together=together)
    assert done.returncode == CampaignHalted.exit_code
    if not together:
        assert re.fullmatch(r"fstune: .*baseline.*\n", done.stderr)


def test_an_answer_or_a_pilot_that_cannot_be_written_says_so_after_the_end(
    campaign_file: Path, environment: dict[str, str], state: Path, tmp_path: Path
) -> None:
    full = "fstune: the output cannot be written: No space left on device"
    done = onto_a_full_disk(environment, "run", campaign_file)
    assert (done.returncode, done.stderr) == (1, f"{full}\n")
    assert last(state)[0] is CampaignState.FINISHED
    path = tmp_path / "pilot.yaml"
    document = yaml.safe_load(campaign_file.read_text()) | {"pilot": {"blocks": 3}}
    path.write_text(yaml.safe_dump(document))
    done = onto_a_full_disk(environment, "pilot", path)
    hint, complaint = done.stderr.splitlines()
    assert done.returncode == 1
    assert hint.startswith("fstune: continue with: fstune resume ")
    assert complaint == full


def onto_a_full_disk(
    environment: dict[str, str], *arguments: str | Path, together: bool = False
) -> subprocess.CompletedProcess[str]:
    with Path("/dev/full").open("w") as full:
        return subprocess.run(
            [*COMMAND, *map(str, arguments)],
            env=environment,
            stdout=full,
            stderr=subprocess.STDOUT if together else subprocess.PIPE,
            text=True,
            check=False,
        )


def test_what_ended_a_campaign_is_said_although_its_page_cannot_be_read(
    finished: str, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreadable(*_: object) -> None:
        raise StoreError("the database cannot be read")

    monkeypatch.setattr(commands, "stored_end", unreadable)
    with Store.open(state) as store:
        campaign = store.campaign(finished)
        with pytest.raises(CampaignHalted):
            commands._tell_end(store, RunOutcome(campaign, (), CampaignHalted("it halted")))
        with pytest.raises(StoreError):
            commands._tell_end(store, RunOutcome(campaign, ()))


def test_a_pipe_closed_after_the_page_does_not_change_the_status(
    finished: str, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reader ends between the page and the sentence after it."""

    def closed(text: str, *, err: bool = False) -> None:
        raise BrokenPipeError

    dropped: list[bool] = []
    monkeypatch.setattr(ending, "say", closed)
    monkeypatch.setattr(ending, "_drop_output", lambda: dropped.append(True))
    with Store.open(state) as store:
        ending.tell_end(ending.stored_end(store, store.campaign(finished)), (), None)
    assert dropped == [True]


@pytest.mark.parametrize(
    ("campaign_state", "words"),
    [
        (CampaignState.PAUSED, "fstune: paused; continue with: fstune resume "),
        (CampaignState.FINISHED, ""),
    ],
)
def test_a_page_that_is_cut_off_does_not_hide_how_to_continue(
    finished: str,
    state: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    campaign_state: CampaignState,
    words: str,
) -> None:
    """Ctrl-C comes while the page is being written."""

    def cut_off(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(ending, "show", cut_off)
    with Store.open(state) as store:
        campaign = replace(store.campaign(finished), state=campaign_state)
        with pytest.raises(typer.Exit) as caught:
            ending.tell_end(ending.stored_end(store, campaign), (), None)
    assert caught.value.exit_code == INTERRUPTED
    assert capsys.readouterr().err.startswith(words)


@pytest.mark.parametrize(
    ("testbed", "answer", "suggested"),
    [
        ({"hosts": "lab.yaml"}, Answer.RECOMMENDED, True),
        ({"hosts": "lab.yaml"}, Answer.NO_IMPROVEMENT, False),
        # It was taken down with the campaign.
        ({"cell": {}}, Answer.RECOMMENDED, False),
    ],
)
def test_what_is_recommended_for_hosts_can_be_applied_next(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    testbed: dict[str, object],
    answer: Answer,
    suggested: bool,
) -> None:
    with Store.open(tmp_path) as store:
        before, after = {"fileserver.threads": 64}, {"fileserver.threads": 200}
        campaign = recommending(store, specification(testbed), before, after, answer)
        ending.tell_end(ending.stored_end(store, campaign), (), None, " --state-dir here")
    sentence = f"fstune apply {campaign.id} --plan --state-dir here\n"
    assert capsys.readouterr().out.endswith(sentence) is suggested
