"""Operations on names, directories, permissions and locks; none of them touches file data."""

from __future__ import annotations

import fcntl
import os
import stat

from workloads.steps import CheckResult, Job, PathOperation, StepError

_MODES = (0o640, 0o644)
#: NFS locks a file exclusively only for who may write it.
_LOCKED = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW


class Mkdir(PathOperation):
    """Create one directory."""

    def perform(self, index: int) -> None:
        os.mkdir(self._paths[index], 0o755)


class Rmdir(PathOperation):
    """Remove one directory."""

    def perform(self, index: int) -> None:
        os.rmdir(self._paths[index])


class Unlink(PathOperation):
    """Remove one file."""

    def perform(self, index: int) -> None:
        os.unlink(self._paths[index])


class Rename(PathOperation):
    """Rename one file within its directory."""

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self._targets = [f"{job.root}/{step.target}" for step in job.steps]

    def perform(self, index: int) -> None:
        os.rename(self._paths[index], self._targets[index])


class Link(PathOperation):
    """Hard-link one file within its directory, and remove the link again."""

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self._targets = [f"{job.root}/{step.target}" for step in job.steps]

    def perform(self, index: int) -> None:
        os.link(self._paths[index], self._targets[index])
        os.unlink(self._targets[index])


class NegativeStat(PathOperation):
    """Stat a name that does not exist."""

    def perform(self, index: int) -> None:
        """stat(2), which must fail with ENOENT."""
        try:
            os.stat(self._paths[index])
        except FileNotFoundError:
            return
        raise StepError("mismatch", "exists, though nothing ever created it")


class Access(PathOperation):
    """Check that a file may be read."""

    def perform(self, index: int) -> None:
        if not os.access(self._paths[index], os.R_OK):
            raise StepError("mismatch", "may not be read, or does not exist")


class Chmod(PathOperation):
    """Toggle the read permission for others in a file's mode."""

    def perform(self, index: int) -> None:
        os.chmod(self._paths[index], _MODES[index % 2])


class Flock(PathOperation):
    """Acquire and release an exclusive lock on a file."""

    def perform(self, index: int) -> None:
        descriptor = os.open(self._paths[index], _LOCKED)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)


class Stat:
    """Stat one file, which must be a regular file of the planned size."""

    def __init__(self, job: Job) -> None:
        self._paths = job.paths()
        self._steps = job.steps
        self._results: list[tuple[int, os.stat_result]] = []

    def perform(self, index: int) -> None:
        self._results.append((index, os.stat(self._paths[index])))

    def check(self) -> CheckResult:
        for index, attributes in self._results:
            size = self._steps[index].end
            if not stat.S_ISREG(attributes.st_mode):
                raise StepError("mismatch", "is not a regular file", index)
            if attributes.st_size != size:
                raise StepError(
                    "mismatch", f"is {attributes.st_size} bytes long, not {size}", index
                )
        return CheckResult()


class List:
    """List one directory, which must contain exactly the planned names."""

    def __init__(self, job: Job) -> None:
        self._paths = job.paths()
        self._steps = job.steps
        self._results: list[tuple[int, list[str]]] = []

    def perform(self, index: int) -> None:
        """open(2), getdents(2) to the end, close(2)."""
        with os.scandir(self._paths[index]) as entries:
            self._results.append((index, [entry.name for entry in entries]))

    def check(self) -> CheckResult:
        for index, names in self._results:
            planned = self._steps[index].entries
            if len(names) == len(planned) and sorted(names) == list(planned):
                continue
            missing = sorted(set(planned) - set(names))
            extra = sorted(set(names) - set(planned))
            raise StepError(
                "mismatch",
                f"lists {len(names)} names, not {len(planned)};"
                f" missing {missing[:3]}, not planned {extra[:3]}",
                index,
            )
        return CheckResult()


class Walk(List):
    """List one directory and stat everything in it."""

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self._sizes: list[tuple[int, dict[str, int]]] = []

    def perform(self, index: int) -> None:
        """open(2), getdents(2) to the end, close(2), and lstat(2) of every name."""
        path = self._paths[index]
        sizes = {}
        with os.scandir(path) as entries:
            names = [entry.name for entry in entries]
        for name in names:
            attributes = os.lstat(f"{path}/{name}")
            sizes[name] = -1 if stat.S_ISDIR(attributes.st_mode) else attributes.st_size
        self._results.append((index, names))
        self._sizes.append((index, sizes))

    def check(self) -> CheckResult:
        checked = super().check()
        for index, sizes in self._sizes:
            step = self._steps[index]
            for name, size in zip(step.entries, step.sizes):
                if sizes[name] != size:
                    raise StepError(
                        "mismatch", f"{name} is {sizes[name]} bytes long, not {size}", index
                    )
        return checked
