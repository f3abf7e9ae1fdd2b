"""What a run of the tests has left behind is ended, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from pathlib import Path

from tests import leftovers

_WAIT = [sys.executable, "-c", "import sys; print(flush=True); sys.stdin.read()"]


def _started(run: str) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        _WAIT,
        env=dict(os.environ, **{leftovers.MARK: run}),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.readline()
    return process


def test_only_processes_of_the_run_are_ended(tmp_path: Path) -> None:
    run, other = uuid.uuid4().hex, uuid.uuid4().hex
    with _started(run) as ours, _started(other) as theirs:
        descriptions = leftovers.end(run, tmp_path)
        assert ours.wait(60) != 0
        assert theirs.poll() is None
        theirs.kill()
    assert len(descriptions) == 1
    assert "sys.stdin.read()" in descriptions[0]
    assert leftovers.end(run, tmp_path) == []
