"""How ``fstune serve`` begins and ends."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.ports import free_port
from tests.unit.cli.conftest import COMMAND, Fstune

pytestmark = pytest.mark.slow

#: Interrupts the command while it imports what the service needs.
INTERRUPTED = """
import os, signal, uvicorn
from tuner.cli import main

original = uvicorn.Config.get_loop_factory

def interrupted(self):
    os.kill(os.getpid(), signal.SIGINT)
    return original(self)

uvicorn.Config.get_loop_factory = interrupted
main()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_it_says_that_it_serves_once_it_does_and_ends_with_0(
    environment: dict[str, str], tmp_path: Path, number: signal.Signals
) -> None:
    port = free_port()
    options = ("serve", "--port", str(port), "--state-dir", str(tmp_path))
    with subprocess.Popen(
        [*COMMAND, *options], env=environment, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stderr is not None
            line = process.stderr.readline()
            assert line == f"fstune: serving http://127.0.0.1:{port}; Ctrl-C stops it\n"
            socket.create_connection(("127.0.0.1", port), 10.0).close()
            process.send_signal(number)
            _, rest = process.communicate(timeout=60)
        finally:
            process.kill()
    assert (process.returncode, rest) == (0, "")


def test_ctrl_c_before_it_serves_ends_it_quietly(
    environment: dict[str, str], tmp_path: Path
) -> None:
    options = ("serve", "--port", str(free_port()), "--state-dir", str(tmp_path))
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, *options],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_database_that_cannot_be_used_is_reported_as_by_other_commands(
    fstune_process: Fstune,
) -> None:
    address = f"postgresql+psycopg://127.0.0.1:{free_port()}/fstune"
    done = fstune_process("serve", "--port", str(free_port()), "--database", address)
    assert done.returncode == 5, done.stderr
    assert done.stderr.startswith("fstune: ")
    assert done.stderr.count("\n") == 1
