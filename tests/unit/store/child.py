"""A child process that uses a store; it acknowledges on standard output what it has done."""

from __future__ import annotations

import subprocess
import sys
from itertools import count
from pathlib import Path

from tests.unit.store import records
from tuner.errors import ConflictError, StoreError
from tuner.states import BlockState, TrialState
from tuner.store import Store, problems

ARMS = 4


def main(task: str, directory: str, address: str, campaign: str) -> None:
    if task == "fill":
        # In a mount namespace of its own: the mount is private, and disappears with the process.
        mount = ["mount", "-t", "tmpfs", "-o", "size=800k,mode=700", "tmpfs", directory]
        subprocess.run(mount, check=True)
        (Path(directory) / "ballast").write_bytes(bytes(300_000))
    print("ready", flush=True)
    sys.stdin.readline()
    with Store.open(Path(directory), address or None) as store:
        match task:
            case "open":
                store.campaigns()
            case "measure":
                measure(store, campaign)
            case "count":
                for _ in range(40):
                    store.add_event(campaign, records.event())
            case "fill":
                fill(store, campaign, Path(directory) / "ballast")
            case "take":
                for trial in store.trials(campaign):
                    take(store, campaign, trial.number)


def measure(store: Store, campaign: str) -> None:
    for number in count(len(store.blocks(campaign)) + 1):
        store.begin_block(campaign, records.block(number, *range(ARMS)), records.event())
        for arm in range(ARMS):
            measurement = records.measurement(arm, arm)
            store.add_measurement(campaign, number, measurement, records.event("measured"))
            print(number, arm, flush=True)
        store.end_block(campaign, number, BlockState.COMPLETE, "", 1.0, records.event())


def fill(store: Store, campaign: str, ballast: Path) -> None:
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


def take(store: Store, campaign: str, trial: int) -> None:
    try:
        store.move_trial(campaign, trial, TrialState.RUNNING, "taken", records.event())
    except ConflictError:
        return
    print(trial, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
