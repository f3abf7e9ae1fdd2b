"""The script that stops a fileserver: how long it lets one that answers go on."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.waiting import wait_for
from tuner.services.journal import script

pytestmark = pytest.mark.slow

PROGRAMS = {
    # Like bosserver with a fileserver that still has calls to finish.
    "bos": """
case $1 in
shutdown)
    echo >> "$HERE/calls"
    until [ -e "$HERE/finished" ] || [ -z "$(tr -d '\\0' < "/proc/$(cat "$HERE/pid")/cmdline")" ]
    do sleep 0.1; done ;;
status) echo "    Command 1 is '$HERE/dafileserver'" ;;
esac""",
    "rxdebug": "",
    "pidof": 'cat "$HERE/pid"',
    "dafileserver": "read -r line",
}


@pytest.fixture
def fileserver(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    for name, text in PROGRAMS.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    with subprocess.Popen([tmp_path / "dafileserver"], stdin=subprocess.PIPE) as process:
        (tmp_path / "pid").write_text(f"{process.pid}\n")
        yield process
        process.kill()


def stop(here: Path, seconds: int) -> subprocess.Popen[bytes]:
    file = here / "stop.sh"
    file.write_bytes(script("tuner.services.openafs", "fileserver-stop.sh"))
    environment = {**os.environ, "HERE": str(here), "PATH": f"{here}:{os.environ['PATH']}"}
    return subprocess.Popen(["sh", file, "192.0.2.9", "dafs", str(seconds)], env=environment)


def test_one_that_answers_may_finish_its_calls(
    fileserver: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    with stop(tmp_path, 1800) as stopping:
        calls = tmp_path / "calls"
        wait_for(lambda: calls.exists() and len(calls.read_bytes()) == 2, "a second try")
        assert fileserver.poll() is None
        (tmp_path / "finished").touch()
        assert stopping.wait(60.0) == 0
    assert fileserver.poll() is None


def test_one_whose_time_is_up_is_killed(
    fileserver: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    with stop(tmp_path, 1) as stopping:
        assert stopping.wait(60.0) == 0
    assert fileserver.wait(60.0) == -9
