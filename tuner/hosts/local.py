"""Connector to this machine."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from deploy.cell import RawResult
from deploy.cell.node import ENVIRONMENT, run_to_end
from tuner.hosts.child import ChildConnector
from tuner.hosts.connector import CommandTimeout
from tuner.hosts.conversation import ProcessConversation
from tuner.hosts.quoting import refuse_null


@dataclass(frozen=True, slots=True)
class LocalConnector(ChildConnector):
    """Runs commands on this machine as the current user."""

    host: str = "localhost"

    def converse(self, argv: Sequence[str]) -> ProcessConversation:
        """See SpeakingConnector.converse."""
        refuse_null(argv)
        return ProcessConversation(self.host, argv, argv, _environment())

    def complete(
        self, argv: Sequence[str], input: bytes = b"", timeout_s: float = 60.0
    ) -> RawResult:
        """See ChildConnector.complete."""
        refuse_null(argv)
        try:
            return run_to_end(argv, input, timeout_s, _environment())
        except TimeoutError as problem:
            raise CommandTimeout(
                self.host, argv, f"not finished after {timeout_s:g} s"
            ) from problem
        except FileNotFoundError:
            return RawResult(127, b"", f"{argv[0]}: not found\n".encode())
        except OSError as problem:
            return RawResult(126, b"", f"{argv[0]}: {problem.strerror}\n".encode())


def _environment() -> dict[str, str]:
    """Ours, with English messages, and with the directories of system programs, which root lacks in
    cron jobs and after some ways of becoming root.
    """
    places = [*os.environ.get("PATH", "").split(":"), *ENVIRONMENT["PATH"].split(":")]
    path = ":".join(dict.fromkeys(filter(None, places)))
    return os.environ | {"PATH": path, "LANG": "C", "LC_ALL": "C.UTF-8", "LANGUAGE": ""}
