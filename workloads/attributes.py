"""Operations on a file's permissions and locks."""

from __future__ import annotations

import fcntl
import os

from workloads.steps import Checked, Job, Mishap

_READ = os.O_RDONLY | os.O_CLOEXEC
_MODES = (0o640, 0o644)


class _OnPath:
    def __init__(self, job: Job) -> None:
        self._paths = job.paths()

    def check(self) -> Checked:
        """Nothing to compare: the call itself succeeds or fails."""
        return Checked()


class Access(_OnPath):
    """Check that a file may be read."""

    def perform(self, index: int) -> None:
        """access(2)."""
        if not os.access(self._paths[index], os.R_OK):
            raise Mishap("mismatch", "may not be read, or does not exist")


class Chmod(_OnPath):
    """Toggle the read permission for others in a file's mode."""

    def perform(self, index: int) -> None:
        """chmod(2)."""
        os.chmod(self._paths[index], _MODES[index % 2])


class Flock(_OnPath):
    """Acquire and release an exclusive lock on a file."""

    def perform(self, index: int) -> None:
        """open(2), flock(2) twice, close(2)."""
        descriptor = os.open(self._paths[index], _READ)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)
