"""``fstune serve`` as a process, and the campaigns that tests watch in it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.ending import kill_runs
from tests.integration.conftest import command
from tests.paced import INSTALLED
from tuner.cli.app import app as command_line
from tuner.store import Store


@dataclass
class Service:
    """``fstune serve`` as a process that can be stopped and restarted at the same address.

    ``published``: the address at which a proxy publishes it.
    """

    directory: Path
    port: int
    options: tuple[str, ...] = ()
    process: subprocess.Popen[bytes] | None = field(default=None)
    published: str = ""

    @property
    def url(self) -> str:
        return self.published or f"http://127.0.0.1:{self.port}"

    def fstune(self, *arguments: str) -> str:
        """Run a command, which must succeed, on the service's directory in this process.

        Returns its standard output.
        """
        words = [*arguments, "--state-dir", str(self.directory)]
        done = CliRunner().invoke(command_line, words)
        assert done.exit_code == 0, (done.output, done.exception)
        return done.stdout

    def in_a_process(self, *arguments: str) -> None:
        """Run a command, which must succeed, on the service's directory in a process of its own:
        it knows the kinds that are installed now.
        """
        words = command(*arguments, "--state-dir", str(self.directory))
        done = subprocess.run(
            words, env=_environment(), capture_output=True, text=True, check=False, timeout=100
        )
        assert done.returncode == 0, done.stderr

    def start(self) -> None:
        options = ("--port", str(self.port), "--state-dir", str(self.directory), *self.options)
        self.process = subprocess.Popen(command("serve", *options), env=_environment())
        deadline = time.monotonic() + 100.0
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 10.0).close()
                return
            except OSError:
                assert self.process.poll() is None, "the service has ended"
                assert time.monotonic() < deadline, "the service does not answer"
                time.sleep(0.05)

    def stop(self, number: int = signal.SIGTERM) -> None:
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait(100)
            self.process = None


@contextmanager
def kept_from_outliving_us(service: Service) -> Iterator[Store]:
    """Kill campaigns that are still running at the end of the test."""
    with Store.open(service.directory) as store:
        try:
            yield store
        finally:
            kill_runs(store)


@pytest.fixture
def paced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Install the kind of services ``paced`` in processes that are started meanwhile."""
    monkeypatch.syspath_prepend(str(INSTALLED))


def _environment() -> dict[str, str]:
    return dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path))
