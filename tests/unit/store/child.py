"""A process of its own that uses a store; it acknowledges on standard output what it has done."""

from __future__ import annotations

import sys
from itertools import count
from pathlib import Path

from tests.unit.store import records
from tuner.errors import ConflictError
from tuner.states import BlockState, TrialState
from tuner.store import Store

ARMS = 4


def main(task: str, directory: str, campaign: str) -> None:
    print("ready", flush=True)
    sys.stdin.readline()
    with Store.open(Path(directory)) as store:
        match task:
            case "open":
                store.campaigns()
            case "measure":
                measure(store, campaign)
            case "count":
                for _ in range(40):
                    store.add_event(campaign, records.event())
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


def take(store: Store, campaign: str, trial: int) -> None:
    try:
        store.move_trial(campaign, trial, TrialState.RUNNING, "taken", records.event())
    except ConflictError:
        return
    print(trial, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
