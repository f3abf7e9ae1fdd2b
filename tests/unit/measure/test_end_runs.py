"""The program that kills leftover workload runs, on real processes of this machine."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[3] / "tuner" / "measure" / "end_runs.py"


#: Says a line when it has started, then waits for the end of its input.
WAITS = ("-c", "import sys; print(flush=True); sys.stdin.read()")


@contextmanager
def process(
    *words: str, program: Sequence[str] = (sys.executable, *WAITS), user: int | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Start a process with these words on its command line that runs until end of input."""
    command = [*program, *words]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, user=user) as one:
        assert one.stdout is not None
        one.stdout.readline()  # its command line is visible now
        try:
            yield one
        finally:
            one.kill()


def end(archive: str, prefix: str, directory: str = "/tmp/none-{uid}") -> int:
    argv = [sys.executable, str(PROGRAM), archive, prefix, directory]
    return subprocess.run(argv, timeout=60).returncode


@pytest.mark.slow
def test_runs_of_the_prefix_end_and_no_others(tmp_path: Path) -> None:
    archive = str(tmp_path / "workloads.pyz")
    with ExitStack() as running:

        def start(*words: str) -> subprocess.Popen[bytes]:
            return running.enter_context(process(*words))

        ours = [start(archive, "run", "--run-id", f"c-{n}", "--seed", "1") for n in (1, 20)]
        others = [
            start(archive, "run", "--run-id", "d-1"),
            start(archive, "run", "--seed", "c-1"),
            start(f"{archive}.old", "run", "--run-id", "c-1"),
        ]
        assert end(archive, "c-") == 0
        assert [one.wait(60) for one in ours] == [-signal.SIGKILL] * 2
        assert [one.poll() for one in others] == [None] * 3
    assert end(archive, "c-") == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="starts a process as another user")
def test_processes_of_other_users_are_left_alone(tmp_path: Path) -> None:
    """Anybody can start one with these words again and again."""
    archive = str(tmp_path / "workloads.pyz")
    program = ("/usr/bin/python3", *WAITS)
    with process(archive, "run", "--run-id", "c-1", program=program, user=65534) as other:
        assert end(archive, "c-") == 0
        assert other.poll() is None


def test_what_the_host_keeps_of_the_runs_is_removed(tmp_path: Path) -> None:
    """Also in a directory with a suffix, which the first one's owner made necessary, and never
    through a link that somebody else made.
    """
    own = f"fstune-{os.geteuid()}"
    runs = ("c-1-stage1", "c-20-stage2", "d-1-stage1")
    for home in (own, f"{own}-1f", "elsewhere"):
        for run in runs:
            (tmp_path / home / run).mkdir(parents=True)
            (tmp_path / home / run / "answer").touch()
    (tmp_path / f"{own}-2e").symlink_to(tmp_path / "elsewhere")
    assert end("x.pyz", "c-", str(tmp_path / "fstune-{uid}")) == 0
    assert [one.name for one in (tmp_path / own).iterdir()] == ["d-1-stage1"]
    assert [one.name for one in (tmp_path / f"{own}-1f").iterdir()] == ["d-1-stage1"]
    assert sorted(one.name for one in (tmp_path / "elsewhere").iterdir()) == sorted(runs)


def test_programs_that_run_as_their_owner_are_left_alone(tmp_path: Path) -> None:
    """Such as sudo, which runs as root for anybody, with any arguments."""
    archive = str(tmp_path / "workloads.pyz")
    shell = tmp_path / "sh"
    shutil.copy("/bin/sh", shell)
    shell.chmod(0o4755)
    program = (str(shell), "-c", "echo; read line")
    with process(archive, "run", "--run-id", "c-1", program=program) as other:
        assert end(archive, "c-") == 0
        assert other.poll() is None
