"""The restore journal: what was found, kept on the host itself, with a script that puts it back.

Owns the promise that a host can be put back without fstune: the files are plain, the script is a
constant that reads them as data. A journal is written whole before the first change and removed
once what it records is in effect again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files

from tuner.errors import TestbedError
from tuner.testbed.connector import CommandFailed, Connector, check

_SCRIPTS = files("tuner.target.openafs") / "scripts"
_RESTORE = "restore.sh"
_RESTORE_TIMEOUT_S = 330.0


@dataclass(frozen=True, slots=True)
class Journal:
    """The journal of one part on one host, in a directory of its own (absolute path).

    ``script``: the packaged script that puts it back, ``helpers``: those that it calls.
    """

    host: Connector
    directory: str
    script: str
    helpers: tuple[str, ...] = ()

    def read(self, record: str) -> tuple[str, ...] | None:
        """A record; None when there is no journal. Raises TestbedError for a damaged one."""
        if self.host.run(["test", "-d", self.directory]).status != 0:
            return None
        result = self.host.run(["cat", f"{self.directory}/{record}"])
        if result.status != 0 or not result.stdout.endswith("\0"):
            raise TestbedError(
                f"{self.host.host}: the restore journal {self.directory} is damaged: {record}: "
                f"{result.tail}"
            )
        return tuple(result.stdout.split("\0")[:-1])

    def begin(
        self,
        records: Mapping[str, Sequence[str]],
        words: Mapping[str, str],
        contents: Mapping[str, bytes] | None = None,
    ) -> None:
        """Write it, unless it is there already: what was found first is what counts.

        ``records``: lists, kept NUL-separated; ``words``: single values, a line each; ``contents``:
        files as they are.
        """
        if self.host.run(["test", "-d", self.directory]).status == 0:
            return
        parent, _, name = self.directory.rpartition("/")
        fresh = f"{parent}/.{name}.new"  # hidden from whoever looks for journals
        check(self.host, ["rm", "--recursive", "--force", fresh])
        check(self.host, ["mkdir", "--parents", "--mode=0700", fresh])
        for name, values in records.items():
            self.host.put(f"{fresh}/{name}", "".join(f"{v}\0" for v in values).encode(), mode=0o600)
        for name, value in words.items():
            self.host.put(f"{fresh}/{name}", f"{value}\n".encode(), mode=0o600)
        for name, content in (contents or {}).items():
            self.host.put(f"{fresh}/{name}", content, mode=0o600)
        for helper in self.helpers:
            self.host.put(f"{fresh}/{helper}", script(helper), mode=0o700)
        self.host.put(f"{fresh}/{_RESTORE}", script(self.script), mode=0o700)
        check(self.host, ["mv", "--no-target-directory", fresh, self.directory])

    def restore(self) -> str | None:
        """Put back what it records and remove it; what was done, None when there is no journal.

        Raises TestbedError, with what the script said, when it cannot be put back; the journal
        stays then.
        """
        if self.host.run(["test", "-d", self.directory]).status != 0:
            return None
        command = ["sh", f"{self.directory}/{_RESTORE}"]
        result = self.host.run(command, timeout_s=_RESTORE_TIMEOUT_S)
        if result.status != 0:
            raise CommandFailed(self.host.host, result)
        check(self.host, ["rm", "--recursive", "--force", self.directory])
        return result.stdout.strip()


def script(name: str) -> bytes:
    """A packaged script."""
    return (_SCRIPTS / name).read_bytes()
