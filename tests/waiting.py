"""Waiting for a condition, with a limit that only a failure reaches."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable


def wait_for(
    condition: Callable[[], bool],
    what: str = "a condition",
    every_s: float = 0.05,
    most_s: float = 240.0,
) -> None:
    """Wait until a condition holds. AssertionError when it does not after ``most_s`` seconds."""
    deadline = time.monotonic() + most_s
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(every_s)


def wait_for_line(process: subprocess.Popen[str], words: str, most_s: float = 240.0) -> str:
    """Read a process's output until a line contains these words; return everything read.
    AssertionError when the output ends without them, or a line comes after ``most_s`` seconds.
    """
    assert process.stdout is not None
    deadline = time.monotonic() + most_s
    read = ""
    for line in process.stdout:
        read += line
        if words in line:
            return read
        assert time.monotonic() < deadline, f"waited in vain for {words!r} in:\n{read}"
    raise AssertionError(f"no {words!r} in:\n{read}")
