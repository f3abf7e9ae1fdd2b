"""A connector that asks but changes nothing: what would be changed is written down instead.

Owns the list of commands that only read. Anything else is recorded and counts as done; directories
that it would have made count as made, so that whoever looks sees what would be there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tuner.testbed.connector import CommandResult, Connector
from tuner.testbed.conversation import Conversation

#: Programs that only read, and of those that can do both, what they may be asked to do.
_READS = frozenset({"cat", "date", "df", "find", "grep", "ip", "ls", "nproc", "pidof", "prlimit"})
_READS |= {
    "cmdebug",
    "rxdebug",
    "sha256sum",
    "ss",
    "stat",
    "tail",
    "test",
    "tokens",
    "uname",
    "xstat_fs_test",
}
_READING_VERBS = {
    "bos": frozenset({"status"}),
    "vos": frozenset({"examine", "listvol", "partinfo"}),
    "fs": frozenset({"-version", "getcrypt"}),
    "python3": frozenset({"--version"}),
}


@dataclass(slots=True)
class DryConnector:
    """See Connector. ``would``: what would have been done, in order, as argument lists; a file
    that would be written is the list ``write``, path and size.
    """

    connector: Connector
    would: list[tuple[str, tuple[str, ...]]]
    _made: set[str] = field(default_factory=set)

    @property
    def host(self) -> str:
        """See Connector.host."""
        return self.connector.host

    def run(
        self, argv: Sequence[str], *, input: bytes = b"", timeout_s: float = 60.0
    ) -> CommandResult:
        """See Connector.run."""
        if argv[0] == "test" and argv[-1] in self._made:
            return CommandResult(tuple(argv), 0, "", "")
        if reads(argv):
            return self.connector.run(argv, input=input, timeout_s=timeout_s)
        if argv[0] == "mv":
            self._made.add(argv[-1])
        elif argv[0] == "rm":
            self._made.discard(argv[-1])
        self.would.append((self.host, tuple(argv)))
        return CommandResult(tuple(argv), 0, "not run\n", "")

    def run_long(
        self, argv: Sequence[str], *, run_id: str, timeout_s: float = 3600.0
    ) -> CommandResult:
        """See SpeakingConnector.run_long."""
        return self.run(argv, timeout_s=timeout_s)

    def put(self, path: str, content: bytes, mode: int = 0o644) -> None:
        """See Connector.put."""
        self.would.append((self.host, ("write", path, f"{len(content)} bytes, mode {mode:o}")))

    def get(self, path: str) -> bytes:
        """See Connector.get."""
        return self.connector.get(path)

    def converse(self, argv: Sequence[str]) -> Conversation:
        """See SpeakingConnector.converse: the command is not started, and says nothing."""
        self.would.append((self.host, tuple(argv)))
        return _Silence(tuple(argv))


@dataclass(frozen=True, slots=True)
class _Silence:
    """What was not started says nothing and comes to nothing."""

    argv: tuple[str, ...]

    def listen(self) -> str | None:
        return None

    def say(self, line: str) -> None:
        pass

    def kill(self) -> None:
        pass

    def end(self) -> CommandResult:
        return CommandResult(self.argv, 0, "", "")


def reads(argv: Sequence[str]) -> bool:
    """Whether a command changes nothing on its host."""
    verbs = _READING_VERBS.get(argv[0])
    if verbs is not None:
        return len(argv) > 1 and argv[1] in verbs
    return argv[0] in _READS and not (argv[0] == "find" and "-delete" in argv)
