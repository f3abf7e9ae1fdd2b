"""A child process that uses a store; it reports what it has done.

Children are forked from a process that has imported everything: that takes longer than most of
their tasks.
"""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
from collections.abc import Callable
from itertools import count
from multiprocessing import forkserver, resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from tests.unit.store import records
from tuner.errors import ConflictError, StoreError
from tuner.states import BlockState, TrialState
from tuner.store import Store, problems

ARMS = 4


_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(
    [
        __name__,
        "sqlalchemy.dialects.postgresql.psycopg",
        "sqlalchemy.dialects.sqlite.pysqlite",
        "tuner.store.postgresql",
    ]
)

Say = Callable[[object], None]


class Child:
    """A process that is ready for its task: ``go`` lets it begin."""

    def __init__(self, task: str, directory: Path, address: str | None, campaign: str) -> None:
        self._here, there = _CONTEXT.Pipe()
        with there:
            words = (task, directory, address, campaign)
            self.process: BaseProcess = _CONTEXT.Process(target=_serve, args=(there, *words))
            self.process.start()
        assert self._here.recv() == "ready"

    def go(self) -> None:
        self._here.send("go")

    def hear(self) -> Any:
        """Return its next report. Raises EOFError when there is none and it has ended."""
        return self._here.recv()

    def rest(self) -> list[Any]:
        """Return its reports until its end."""
        reports = []
        try:
            while True:
                reports.append(self.hear())
        except (EOFError, ConnectionResetError):
            self.process.join()
        return reports

    def kill(self) -> None:
        self.process.kill()

    def end(self) -> None:
        self.kill()
        self.process.join()
        self._here.close()


def stop_forking() -> None:
    """End the process that children are forked from, and its helper; they would outlive a test."""
    forkserver._forkserver._stop()  # type: ignore[attr-defined]
    resource_tracker._resource_tracker._stop()  # type: ignore[attr-defined]


def _serve(
    there: Connection, task: str, directory: Path, address: str | None, campaign: str
) -> None:
    there.send("ready")
    there.recv()
    with Store.open(directory, address) as store:
        match task:
            case "open":
                store.campaigns()
            case "measure":
                measure(store, campaign, there.send)
            case "count":
                for _ in range(40):
                    store.add_event(campaign, records.event())
            case "take":
                for trial in store.trials(campaign):
                    take(store, campaign, trial.number, there.send)


def measure(store: Store, campaign: str, say: Say) -> None:
    for number in count(len(store.blocks(campaign)) + 1):
        store.begin_block(campaign, records.block(number, *range(ARMS)), records.event())
        for arm in range(ARMS):
            measurement = records.measurement(arm, arm)
            store.add_measurement(campaign, number, measurement, records.event("measured"))
            say((number, arm))
        store.end_block(campaign, number, BlockState.COMPLETE, "", 1.0, records.event())


def fill(store: Store, ballast: Path) -> None:
    """Write until the disk is full, make room, and write on. Prints the acknowledged numbers."""
    campaign = store.create_campaign("c", "{}", 0, records.NOON).id
    for room in (False, True):
        if room:
            ballast.unlink()
        try:
            for _ in range(20 if room else 5000):
                print(store.add_event(campaign, records.event()).number, flush=True)
        except StoreError as error:
            print(error, flush=True)
    assert problems(store) == [], problems(store)
    print(len(store.events(campaign)), flush=True)


def take(store: Store, campaign: str, trial: int, say: Say) -> None:
    try:
        store.move_trial(campaign, trial, TrialState.RUNNING, "taken", records.event())
    except ConflictError:
        return
    say(trial)


def main(directory: str) -> None:
    """Fill a disk of its own, in a mount namespace of its own: it disappears with the process."""
    mount = ["mount", "-t", "tmpfs", "-o", "size=800k,mode=700", "tmpfs", directory]
    subprocess.run(mount, check=True)
    ballast = Path(directory) / "ballast"
    ballast.write_bytes(bytes(300_000))
    with Store.open(Path(directory)) as store:
        fill(store, ballast)


if __name__ == "__main__":
    main(*sys.argv[1:])
