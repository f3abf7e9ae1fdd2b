"""Connector to this machine."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from deploy.cell import Completed
from deploy.cell.node import run_to_end
from tuner.hosts.connector import (
    CommandFailed,
    CommandResult,
    CommandTimeout,
    Direct,
    decoded,
    write_whole,
)
from tuner.hosts.conversation import ProcessConversation
from tuner.hosts.quoting import refuse_null


@dataclass(frozen=True, slots=True)
class LocalConnector(Direct):
    """Runs commands here, as whoever we are."""

    host: str = "localhost"

    def run(
        self, argv: Sequence[str], *, input: bytes = b"", timeout_s: float = 60.0
    ) -> CommandResult:
        done = self._run(argv, input, timeout_s)
        return decoded(self.host, argv, done.status, done.stdout, done.stderr)

    def run_long(
        self, argv: Sequence[str], *, run_id: str, timeout_s: float = 3600.0
    ) -> CommandResult:
        """See SpeakingConnector.run_long: nothing comes between us and this machine."""
        return self.run(argv, timeout_s=timeout_s)

    def put(self, path: str, content: bytes, mode: int = 0o644) -> None:
        write_whole(self, path, content, mode)

    def get(self, path: str) -> bytes:
        argv = ["cat", "--", path]
        done = self._run(argv)
        result = decoded(self.host, argv, done.status, done.stdout, done.stderr)
        if result.status != 0:
            raise CommandFailed(self.host, result)
        return done.stdout

    def converse(self, argv: Sequence[str]) -> ProcessConversation:
        """See SpeakingConnector.converse."""
        refuse_null(argv)
        return ProcessConversation(self.host, argv, argv, _environment())

    def _run(self, argv: Sequence[str], input: bytes = b"", timeout_s: float = 60.0) -> Completed:
        refuse_null(argv)
        try:
            return run_to_end(argv, input, timeout_s, _environment())
        except TimeoutError as problem:
            raise CommandTimeout(self.host, argv, f"no end after {timeout_s:g} s") from problem
        except FileNotFoundError:
            return Completed(127, b"", f"{argv[0]}: not found\n".encode())
        except OSError as problem:
            return Completed(126, b"", f"{argv[0]}: {problem.strerror}\n".encode())


def _environment() -> dict[str, str]:
    return os.environ | {"LANG": "C", "LC_ALL": "C.UTF-8"}
