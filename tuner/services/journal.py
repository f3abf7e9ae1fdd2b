"""The restore journal: the original settings, on the host itself, with a script to restore them.

Guarantees that a host can be restored without fstune: the files are plain, and the script is a
constant that reads them as data. A journal is written completely before the first change. It is
removed once the recorded settings are in effect again, or closed in favour of a configuration that
stays. It survives a crash of the host. A damaged journal is never used: its files are checked
against their checksums first.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from importlib.resources import files

from tuner.errors import TestbedError
from tuner.hosts.connector import CommandFailed, Connector, check_change
from tuner.identifiers import word
from tuner.services.lasting import JournalState

_RESTORE = "restore.sh"
#: Directory of closed journals, next to the directory of open ones.
_LASTING = "applied"
#: File of checksums in the format of sha256sum; the scripts use this name too.
_SUMS = "sums"
#: Arguments: a journal, and a hidden name next to it. Removes it all at once: with a part of it
#: only, it would count as damaged. A disk may be too full to rename anything.
_REMOVE = """\
rm -rf -- "$2"
mv --no-target-directory -- "$1" "$2" 2> /dev/null
exec rm -rf -- "$1" "$2"
"""
#: The longest that a restore of one part may take, unless the part knows better.
RESTORE_TIMEOUT_S = 330.0


@dataclass(slots=True)
class WithJournal(ABC):
    """Something tuned on a host, with a journal of its original settings there.

    ``recorded``: whether they are in the journal already.
    """

    recorded: bool = field(default=False, kw_only=True)

    def _record(self) -> None:
        """Before the first change, record the original settings on the host itself."""
        if not self.recorded:
            self._begin()
            self.recorded = True

    @abstractmethod
    def _begin(self) -> bool:
        """Begin the journal; see ``Journal.begin``."""


@dataclass(frozen=True, slots=True)
class Journal:
    """The journal of one part on one host, in a directory of its own (absolute path).

    ``script``: the packaged script that restores the recorded settings; ``helpers``: the scripts
    that it calls. All are in the folder ``scripts`` of ``package``.
    """

    host: Connector
    directory: str
    package: str
    script: str
    helpers: tuple[str, ...] = ()

    def read(self, record: str, absent: tuple[str, ...] | None = None) -> tuple[str, ...] | None:
        """Read a record; None if there is no journal. Raises TestbedError if it is damaged.

        ``absent``: returned for a journal without the record, which an older version wrote.
        """
        if self.host.ask(["test", "-d", self.directory]).status != 0:
            return None
        sums = self.host.ask(["cat", f"{self.directory}/{_SUMS}"]).stdout
        names = [line.partition("  ")[2] for line in sums.splitlines()]
        paths = [f"{self.directory}/{name}" for name in names]
        checksums = self.host.ask(["sha256sum", "--", *paths]).stdout if paths else ""
        if (record not in names and absent is None) or checksums.replace(
            f"  {self.directory}/", "  "
        ) != sums:
            raise TestbedError(
                f"{self.host.host}: the restore journal {self.directory} is damaged: restore by "
                "hand what its files say, as far as they can be trusted, and remove it"
            )
        if record not in names:
            return absent
        text = self.host.get(f"{self.directory}/{record}").decode("utf-8", "surrogateescape")
        return tuple(text.split("\0")[:-1])

    def note(self, record: str, values: Sequence[str]) -> None:
        """Store a list with the journal that is not part of the state to restore."""
        self.host.put(f"{self.directory}/{record}", _nul_separated(values), mode=0o600)

    def read_note(self, record: str) -> tuple[str, ...]:
        """Return the list stored by ``note``; empty if there is none."""
        return tuple(self.host.ask(["cat", f"{self.directory}/{record}"]).stdout.split("\0")[:-1])

    def begin(
        self,
        records: Mapping[str, Sequence[str]],
        words: Mapping[str, str],
        contents: Mapping[str, bytes] | None = None,
    ) -> bool:
        """Write the journal unless it exists already: the first record is the valid one.

        Returns whether it was written. ``records``: lists, stored NUL-separated; ``words``: single
        values, stored as one line each; ``contents``: files, stored verbatim.
        """
        if self.host.ask(["test", "-d", self.directory]).status == 0:
            return False
        parent, fresh = self.directory.rpartition("/")[0], self._hidden
        check_change(self.host, ["rm", "--recursive", "--force", fresh])
        self._make_own(parent, fresh)
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
        # Must be on disk before it takes effect: the recorded settings may be changed right after,
        # and the host may lose power.
        check_change(self.host, ["sync", *(f"{fresh}/{name}" for name in plain | scripts), fresh])
        check_change(self.host, ["mv", "--no-target-directory", fresh, self.directory])
        check_change(self.host, ["sync", parent])
        return True

    def state(self, name: str) -> JournalState:
        """Return its state on the host. ``name``: the name under which it may be kept."""
        for state, directory in (
            (JournalState.OPEN, self.directory),
            (JournalState.KEPT, self._kept_directory(name)),
        ):
            if self.host.ask(["test", "-d", directory]).status == 0:
                return state
        return JournalState.NONE

    def keep(self, name: str) -> None:
        """Close it atomically in favour of what is in effect now.

        From then on the host no longer restores itself from it, and ``reopen`` can open it again.
        Does nothing if it is already kept or was never begun.
        """
        if self.state(name) is JournalState.OPEN:
            self._move(self.directory, self._kept_directory(name))

    def reopen(self, name: str) -> None:
        """Open the journal kept under a name. Does nothing if there is none."""
        if self.state(name) is JournalState.KEPT:
            self._move(self._kept_directory(name), self.directory)

    def of_application(self, name: str) -> Journal:
        """The journal that is kept under a name, if there is one."""
        return replace(self, directory=self._kept_directory(name))

    def kept_journals(self) -> list[Journal]:
        """Return the possible locations of this part's closed journals, the oldest first.

        Names of applications begin with the time, so they sort by age.
        """
        parent, _, part = self.directory.rpartition("/")
        place = f"{parent.rpartition('/')[0]}/{_LASTING}"
        names = sorted(self.host.ask(["ls", place]).stdout.split())
        return [replace(self, directory=f"{place}/{name}/{part}") for name in names]

    def _kept_directory(self, name: str) -> str:
        parent, _, part = self.directory.rpartition("/")
        return f"{parent.rpartition('/')[0]}/{_LASTING}/{word(name, 'application')}/{part}"

    def _move(self, old: str, new: str) -> None:
        before, after = old.rpartition("/")[0], new.rpartition("/")[0]
        self._make_own(after.rpartition("/")[0], after)
        check_change(self.host, ["mv", "--no-target-directory", old, new])
        # Must be on disk before it takes effect, the new directory before the old one.
        check_change(self.host, ["sync", after, before])

    def _make_own(self, parent: str, directory: str) -> None:
        # Both are named, since the mode applies only to named ones: the others depend on the umask,
        # and restore-all.sh refuses directories that a group can write.
        check_change(self.host, ["mkdir", "--parents", "--mode=0700", parent, directory])

    def restore(self, limit_s: float = RESTORE_TIMEOUT_S) -> str | None:
        """Restore the recorded settings and remove the journal, within ``limit_s``.

        Returns what was done, or None if there is no journal. Raises TestbedError, with the
        script's output, when the settings cannot be restored; the journal stays in that case.
        """
        if self.host.ask(["test", "-d", self.directory]).status != 0:
            return None
        command = ["sh", f"{self.directory}/{_RESTORE}"]
        result = self.host.change(command, timeout_s=limit_s)
        # A script without output is an empty file that did nothing.
        if result.status != 0 or not result.stdout:
            raise CommandFailed(self.host.host, result)
        check_change(self.host, ["sh", "-c", _REMOVE, "sh", self.directory, self._hidden])
        return result.stdout.strip()

    @property
    def _hidden(self) -> str:
        """Where it is not yet, or no longer, a journal: searches for journals skip hidden names."""
        parent, _, name = self.directory.rpartition("/")
        return f"{parent}/.{name}.new"


def kept_names(host: Connector, directory: str) -> set[str]:
    """Return the names under which journals are kept on a host. ``directory``: that of everything
    needed to restore it. A name whose journals have been opened again is not among them.
    """
    place = f"{directory}/{_LASTING}"
    depth = ["-mindepth", "2", "-maxdepth", "2"]
    listing = host.ask(["find", place, *depth, "-type", "d", "-printf", "%P\\n"])
    return {line.partition("/")[0] for line in listing.stdout.splitlines()}


def _nul_separated(values: Sequence[str]) -> bytes:
    return "".join(f"{value}\0" for value in values).encode("utf-8", "surrogateescape")


def script(package: str, name: str) -> bytes:
    """Return the content of a packaged script."""
    return (files(package) / "scripts" / name).read_bytes()
