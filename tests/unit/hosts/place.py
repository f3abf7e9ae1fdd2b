"""The restore directory of a host, on this machine, where the scripts really run."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.waiting import wait_for
from tuner.hosts.hold import Hold
from tuner.hosts.lease import Owner
from tuner.hosts.local import LocalConnector
from tuner.services.journal import Journal

OURS, THEIRS = Owner("campaign-1", "here"), Owner("campaign-2", "there")
#: Appends the name of its part to a file next to the journals.
PROVES = 'echo "${PWD##*/}" >> ../../proof; echo restored\n'


def put_first(directory: Path, monkeypatch: pytest.MonkeyPatch, name: str, script: str) -> None:
    """Let everything here find this shell script under that name before the real program."""
    program = directory / "bin" / name
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n{script}")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")


@dataclass
class Place:
    """The restore directory of a host, on this machine."""

    directory: Path

    def take(self, owner: Owner = OURS, after_s: float = 60.0) -> Hold:
        return Hold.take(LocalConnector(), str(self.directory), owner, after_s)

    def journal(self, script: str = PROVES, part: str = "part") -> Path:
        """Create a journal with the given restore script; return its directory."""
        path = self.directory / "restore" / part
        journal = Journal(
            LocalConnector(), str(path), "tuner.services.openafs", "fileserver-restore.sh"
        )
        journal.begin({"commands": ("a", "b")}, {"address": "192.0.2.1"})
        (path / "restore.sh").write_text(f'cd "$(dirname "$0")" || exit 1\n{script}')
        return path

    def expire(self) -> None:
        """Make the last heartbeat look far too old."""
        new = self.directory / "past"
        new.write_text("-100000\n")
        new.rename(self.directory / "lease" / "heartbeat")

    @property
    def proof(self) -> list[str]:
        path = self.directory / "proof"
        return path.read_text().split() if path.exists() else []

    def watches(self) -> list[int]:
        pids = []
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and os.readlink(entry / "cwd") == str(self.directory):
                    words = (entry / "cmdline").read_text().split("\0")
                    pids += [int(entry.name)] if "watch.sh" in words else []
            except OSError:
                continue
        return pids

    def await_watch(self) -> None:
        """Wait until exactly one watch runs and has recorded its process ID."""
        pid_file = self.directory / "watch.pid"

        def is_recorded() -> bool:
            pids = self.watches()
            return len(pids) == 1 and pid_file.exists() and pid_file.read_text() == f"{pids[0]}\n"

        wait_for(is_recorded, "the watch")

    def kill_watch(self) -> None:
        self.await_watch()
        # The recorded process ID, since a child that the watch has just forked looks the same.
        os.kill(int((self.directory / "watch.pid").read_text()), signal.SIGKILL)
        wait_for(lambda: self.watches() == [], "its end")
