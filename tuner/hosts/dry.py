"""A dry-run connector: runs read-only commands, and records changes instead of making them.

A recorded change counts as successful; directories that it would have moved count as existing,
and what it would have removed as absent, so that later checks see the state that would result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tuner.hosts.connector import CommandResult, Connector, written_file
from tuner.hosts.conversation import Conversation
from tuner.hosts.guard import bare


@dataclass(slots=True)
class DryConnector:
    """See Connector. ``would``: host and argument list of each change that would have been made, in
    order; a file that would be written is recorded as ``write``, its path, and its size and mode.
    """

    connector: Connector
    commands: list[tuple[str, tuple[str, ...]]]
    #: Whether a path would exist by now; other paths are looked up on the host.
    _exists: dict[str, bool] = field(default_factory=dict)

    @property
    def host(self) -> str:
        """See Connector.host."""
        return self.connector.host

    def ask(
        self, argv: Sequence[str], *, input: bytes = b"", timeout_s: float = 60.0
    ) -> CommandResult:
        """See Connector.ask."""
        if argv[0] == "test" and argv[-1] in self._exists:
            return CommandResult(tuple(argv), 0 if self._exists[argv[-1]] else 1, "", "")
        return self.connector.ask(argv, input=input, timeout_s=timeout_s)

    def change(
        self, argv: Sequence[str], *, input: bytes = b"", timeout_s: float = 60.0
    ) -> CommandResult:
        """See Connector.change: the command is only recorded."""
        argv = bare(argv)
        if (file := written_file(argv)) is not None:
            self.put(file[0], input, file[1])
            return CommandResult(tuple(argv), 0, "", "")
        if argv[0] == "mv":
            self._exists[argv[-1]] = True
        elif argv[0] == "mkdir":
            self._exists.pop(argv[-1], None)
        elif argv[0] == "rm":
            self._exists.update(dict.fromkeys(argv[1:], False))
        self.commands.append((self.host, tuple(argv)))
        return CommandResult(tuple(argv), 0, "not run\n", "")

    def run_long(
        self, argv: Sequence[str], *, run_id: str, timeout_s: float = 3600.0
    ) -> CommandResult:
        """See SpeakingConnector.run_long."""
        return self.change(argv, timeout_s=timeout_s)

    def put(self, path: str, content: bytes, mode: int = 0o644) -> None:
        """See Connector.put."""
        self._exists.pop(path, None)
        self.commands.append((self.host, ("write", path, f"{len(content)} bytes, mode {mode:o}")))

    def get(self, path: str) -> bytes:
        """See Connector.get."""
        return self.connector.get(path)

    def converse(self, argv: Sequence[str]) -> Conversation:
        """See SpeakingConnector.converse: the command is only recorded and prints nothing."""
        self.commands.append((self.host, tuple(bare(argv))))
        return _Silence(tuple(bare(argv)))


@dataclass(frozen=True, slots=True)
class _Silence:
    """Conversation with a command that was not started: no output, exit status 0."""

    argv: tuple[str, ...]

    def listen(self) -> str | None:
        return None

    def say(self, line: str) -> None:
        pass

    def kill(self) -> None:
        pass

    def end(self) -> CommandResult:
        return CommandResult(self.argv, 0, "", "")
