"""The restore journal: the settings as found, on the host itself, with a script to put them back.

Owns the promise that a host can be put back without fstune: the files are plain, the script is a
constant that reads them as data. A journal is written whole before the first change and removed
once what it records is in effect again, or closed in favour of a configuration that stays. It
survives the host's sudden end, and one that was damaged is never guessed at: its files are held
against their checksums before anything is done by them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from importlib.resources import files

from tuner.errors import TestbedError
from tuner.hosts.connector import CommandFailed, Connector, check, check_change
from tuner.identifiers import word
from tuner.services.lasting import JournalState

_RESTORE = "restore.sh"
#: Beside the directory of open journals.
_KEPT = "applied"
#: As sha256sum prints them; the scripts look for this name too.
_SUMS = "sums"
_RESTORE_TIMEOUT_S = 330.0


@dataclass(frozen=True, slots=True)
class Journal:
    """The journal of one part on one host, in a directory of its own (absolute path).

    ``script``: the packaged script that puts it back, ``helpers``: those that it calls, all of the
    folder ``scripts`` of ``package``.
    """

    host: Connector
    directory: str
    package: str
    script: str
    helpers: tuple[str, ...] = ()

    def read(self, record: str) -> tuple[str, ...] | None:
        """A record; None when there is no journal. Raises TestbedError for a damaged one."""
        if self.host.ask(["test", "-d", self.directory]).status != 0:
            return None
        sums = self.host.ask(["cat", f"{self.directory}/{_SUMS}"]).stdout
        names = [line.partition("  ")[2] for line in sums.splitlines()]
        paths = [f"{self.directory}/{name}" for name in names]
        checksums = self.host.ask(["sha256sum", "--", *paths]).stdout if paths else ""
        if record not in names or checksums.replace(f"  {self.directory}/", "  ") != sums:
            raise TestbedError(
                f"{self.host.host}: the restore journal {self.directory} is damaged: put back by "
                "hand what its files say, as far as they can be trusted, and remove it"
            )
        text = check(self.host, ["cat", f"{self.directory}/{record}"])
        return tuple(text.split("\0")[:-1])

    def note(self, record: str, values: Sequence[str]) -> None:
        """Keep a list beside it that is not to be put back; see ``read_note``."""
        self.host.put(f"{self.directory}/{record}", _nul_separated(values), mode=0o600)

    def read_note(self, record: str) -> tuple[str, ...]:
        """What ``note`` kept; nothing when it kept nothing."""
        return tuple(self.host.ask(["cat", f"{self.directory}/{record}"]).stdout.split("\0")[:-1])

    def begin(
        self,
        records: Mapping[str, Sequence[str]],
        words: Mapping[str, str],
        contents: Mapping[str, bytes] | None = None,
    ) -> bool:
        """Write it, unless it exists already: the first record counts. Returns whether it was
        written.

        ``records``: lists, kept NUL-separated; ``words``: single values, a line each; ``contents``:
        files as they are.
        """
        if self.host.ask(["test", "-d", self.directory]).status == 0:
            return False
        parent, _, name = self.directory.rpartition("/")
        fresh = f"{parent}/.{name}.new"  # hidden from whoever looks for journals
        check_change(self.host, ["rm", "--recursive", "--force", fresh])
        check_change(self.host, ["mkdir", "--parents", "--mode=0700", fresh])
        plain = {name: _nul_separated(values) for name, values in records.items()}
        plain |= {name: f"{value}\n".encode() for name, value in words.items()}
        plain |= contents or {}
        scripts = {helper: script(self.package, helper) for helper in self.helpers}
        contents_by_name = plain | scripts
        sums = (
            f"{sha256(contents_by_name[one]).hexdigest()}  {one}\n"
            for one in sorted(contents_by_name)
        )
        plain[_SUMS] = "".join(sums).encode()
        scripts[_RESTORE] = script(self.package, self.script)
        for name, content in plain.items():
            self.host.put(f"{fresh}/{name}", content, mode=0o600)
        for name, content in scripts.items():
            self.host.put(f"{fresh}/{name}", content, mode=0o700)
        # On the disk before it counts: what it speaks of may be changed a moment later, and the
        # host's power fail.
        check_change(self.host, ["sync", *(f"{fresh}/{name}" for name in plain | scripts), fresh])
        check_change(self.host, ["mv", "--no-target-directory", fresh, self.directory])
        check_change(self.host, ["sync", parent])
        return True

    def state(self, name: str) -> JournalState:
        """Its state on the host. ``name``: under which it may be kept."""
        for state, directory in (
            (JournalState.OPEN, self.directory),
            (JournalState.KEPT, self._kept_directory(name)),
        ):
            if self.host.ask(["test", "-d", directory]).status == 0:
                return state
        return JournalState.NONE

    def keep(self, name: str) -> None:
        """Close it in favour of what is in effect now: in one moment the host goes back by it no
        more, and it lies ready for ``reopen``. Harmless when it is kept, or was never begun.
        """
        if self.state(name) is JournalState.OPEN:
            self._move(self.directory, self._kept_directory(name))

    def reopen(self, name: str) -> None:
        """Open what was kept under a name. Harmless when nothing was."""
        if self.state(name) is JournalState.KEPT:
            self._move(self._kept_directory(name), self.directory)

    def kept(self) -> list[Journal]:
        """Where those of this part may be that were closed in favour of configurations that stay,
        the earliest first, as their names begin with the time.
        """
        parent, _, part = self.directory.rpartition("/")
        place = f"{parent.rpartition('/')[0]}/{_KEPT}"
        names = sorted(self.host.ask(["ls", place]).stdout.split())
        return [replace(self, directory=f"{place}/{name}/{part}") for name in names]

    def _kept_directory(self, name: str) -> str:
        parent, _, part = self.directory.rpartition("/")
        return f"{parent.rpartition('/')[0]}/{_KEPT}/{word(name, 'application')}/{part}"

    def _move(self, old: str, new: str) -> None:
        before, after = old.rpartition("/")[0], new.rpartition("/")[0]
        check_change(self.host, ["mkdir", "--parents", "--mode=0700", after])
        check_change(self.host, ["mv", "--no-target-directory", old, new])
        # On the disk before it counts, and the new place before the old one.
        check_change(self.host, ["sync", after, before])

    def restore(self) -> str | None:
        """Put back what it records and remove it. Returns what was done, None without a journal.

        Raises TestbedError, with the script's output, when it cannot be put back; the journal
        stays then.
        """
        if self.host.ask(["test", "-d", self.directory]).status != 0:
            return None
        command = ["sh", f"{self.directory}/{_RESTORE}"]
        result = self.host.change(command, timeout_s=_RESTORE_TIMEOUT_S)
        # A script that prints nothing is empty, and did nothing.
        if result.status != 0 or not result.stdout:
            raise CommandFailed(self.host.host, result)
        check_change(self.host, ["rm", "--recursive", "--force", self.directory])
        return result.stdout.strip()


def _nul_separated(values: Sequence[str]) -> bytes:
    return "".join(f"{value}\0" for value in values).encode()


def script(package: str, name: str) -> bytes:
    """A packaged script."""
    return (files(package) / "scripts" / name).read_bytes()
