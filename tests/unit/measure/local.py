"""Clients simulated by directories and processes of this machine: the real engine, no cell."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tuner.errors import TransportError
from tuner.hosts.connector import CommandResult
from tuner.hosts.conversation import ProcessConversation

ENVIRONMENT = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}


@dataclass
class LocalClient:
    """A client host in name only. ``wrap`` may replace the command of a conversation."""

    host: str
    wrap: Callable[[list[str]], list[str]] = lambda argv: argv
    reachable: bool = True
    commands: list[list[str]] = field(default_factory=list)

    def run(
        self, argv: Sequence[str], *, input: bytes = b"", timeout_s: float = 60.0
    ) -> CommandResult:
        self.commands.append(list(argv))
        done = subprocess.run(argv, input=input, capture_output=True, timeout=60, env=ENVIRONMENT)
        return CommandResult(
            tuple(argv), done.returncode, done.stdout.decode(), done.stderr.decode()
        )

    ask = change = run

    def run_long(
        self, argv: Sequence[str], *, run_id: str, timeout_s: float = 3600.0
    ) -> CommandResult:
        return self.run(argv, timeout_s=timeout_s)

    def converse(self, argv: Sequence[str]) -> ProcessConversation:
        if not self.reachable:
            raise TransportError(f"{self.host}: out of reach")
        self.commands.append(list(argv))
        return ProcessConversation(self.host, argv, self.wrap(list(argv)), ENVIRONMENT)

    def put(self, path: str, content: bytes, mode: int = 0o644) -> None:
        with tempfile.NamedTemporaryFile(dir=Path(path).parent, delete=False) as file:
            file.write(content)
        Path(file.name).rename(path)

    def get(self, path: str) -> bytes:
        return Path(path).read_bytes()
