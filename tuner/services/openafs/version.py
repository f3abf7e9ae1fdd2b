"""Versions of running programs, which they tell over Rx.

An upgrade replaces a program on disk, and its next start is that of another one.
"""

from __future__ import annotations

from dataclasses import dataclass

from tuner.errors import TestbedError
from tuner.hosts.connector import CommandFailed, CommandTimeout, Connector, check

_ANSWER_TIMEOUT_S = 20.0


def version_of(
    host: Connector, address: str, port: int, timeout_s: float = _ANSWER_TIMEOUT_S
) -> str:
    """The version of the program that serves a port. Raises CommandFailed or CommandTimeout."""
    argv = ["rxdebug", address, str(port), "-version"]
    return check(host, argv, timeout_s=timeout_s).partition("version:")[2].strip()


@dataclass(slots=True)
class RunningVersion:
    """The version of a program; ``text``: "" until it has answered."""

    text: str = ""

    def ask(self, host: Connector, address: str, port: int, program: str) -> bool:
        """Ask a program that was started again; returns whether it has answered.

        Raises TestbedError, which names the ``program``, if its version is not the one before.
        """
        try:
            now = version_of(host, address, port)
        except (CommandFailed, CommandTimeout):
            return False
        if self.text and now and now != self.text:
            raise TestbedError(
                f"{host.host}: {program} has been replaced meanwhile: it was {self.text}, and "
                f"since its last start it is {now}; what was measured with both must not be mixed: "
                f"install {self.text} again and resume, or start a new campaign"
            )
        self.text = now or self.text
        return True
