"""The operations on names and directories: nothing here touches file data."""

from __future__ import annotations

import os
import stat

from workloads.steps import Checked, Job, Mishap


class _Plain:
    """A step that is one system call and succeeds or raises."""

    def __init__(self, job: Job) -> None:
        self._paths = job.paths()

    def check(self) -> Checked:
        """Nothing to compare: the call has said it all."""
        return Checked()


class Mkdir(_Plain):
    """Make one directory."""

    def perform(self, index: int) -> None:
        """mkdir(2)."""
        os.mkdir(self._paths[index], 0o755)


class Rmdir(_Plain):
    """Remove one directory."""

    def perform(self, index: int) -> None:
        """rmdir(2)."""
        os.rmdir(self._paths[index])


class Unlink(_Plain):
    """Remove one file."""

    def perform(self, index: int) -> None:
        """unlink(2)."""
        os.unlink(self._paths[index])


class Rename(_Plain):
    """Give one file another name in its directory."""

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self._targets = [f"{job.root}/{step.target}" for step in job.steps]

    def perform(self, index: int) -> None:
        """rename(2)."""
        os.rename(self._paths[index], self._targets[index])


class NegativeStat(_Plain):
    """Ask for a name that does not exist."""

    def perform(self, index: int) -> None:
        """stat(2), which must fail with ENOENT."""
        try:
            os.stat(self._paths[index])
        except FileNotFoundError:
            return
        raise Mishap("mismatch", "exists, though nothing ever created it")


class Stat:
    """Ask for one file's attributes; it must be a regular file of the planned size."""

    def __init__(self, job: Job) -> None:
        self._paths = job.paths()
        self._steps = job.steps
        self._found: list[os.stat_result] = []

    def perform(self, index: int) -> None:
        """stat(2)."""
        self._found.append(os.stat(self._paths[index]))

    def check(self) -> Checked:
        """Compare type and size."""
        for index, found in enumerate(self._found):
            wanted = self._steps[index].size_bytes
            if not stat.S_ISREG(found.st_mode):
                raise Mishap("mismatch", "is not a regular file", index)
            if found.st_size != wanted:
                raise Mishap("mismatch", f"is {found.st_size} bytes long, not {wanted}", index)
        return Checked()


class List:
    """Read one directory; it must hold exactly the planned names."""

    def __init__(self, job: Job) -> None:
        self._paths = job.paths()
        self._steps = job.steps
        self._found: list[list[str]] = []

    def perform(self, index: int) -> None:
        """open(2), getdents(2) to the end, close(2)."""
        with os.scandir(self._paths[index]) as entries:
            self._found.append([entry.name for entry in entries])

    def check(self) -> Checked:
        """Compare the names."""
        for index, found in enumerate(self._found):
            wanted = self._steps[index].entries
            if len(found) == len(wanted) and sorted(found) == list(wanted):
                continue
            missing = sorted(set(wanted) - set(found))
            extra = sorted(set(found) - set(wanted))
            raise Mishap(
                "mismatch",
                f"lists {len(found)} names, not {len(wanted)};"
                f" missing {missing[:3]}, not planned {extra[:3]}",
                index,
            )
        return Checked()
