"""Several processes use one store, and some of them are killed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.unit.store import child, records
from tuner.states import BlockState, TrialState
from tuner.store import Store

Start = Callable[[str, Path, str], "subprocess.Popen[str]"]


@pytest.fixture
def start(root: Path) -> Iterator[Start]:
    """Return what starts a child; it waits for a line before it does its task."""
    children: list[subprocess.Popen[str]] = []

    def begin(task: str, directory: Path, campaign: str = "") -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", child.__name__, task, str(directory), campaign],
            cwd=root,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        children.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        return process

    yield begin
    for process in children:
        process.kill()
        process.communicate()


def go(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


@pytest.mark.parametrize("acknowledgements", [1, 6, 19])
def test_kill_loses_nothing_that_was_acknowledged(
    state_directory: Path, start: Start, acknowledgements: int
) -> None:
    with Store.open(state_directory) as store:
        campaign = records.begun(store, trials=child.ARMS)
    acknowledged: list[tuple[int, int]] = []
    for turn in range(2):
        process = start("measure", state_directory, campaign)
        go(process)
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(acknowledgements)]
        process.kill()
        # What it wrote between the last line read and its end counts as well.
        rest, _ = process.communicate()
        for line in [*lines, *rest.splitlines()]:
            block, arm = line.split()
            acknowledged.append((int(block), int(arm)))

        with Store.open(state_directory) as store:
            store.void_running_blocks(campaign, "killed", records.event("void"))
            blocks = store.blocks(campaign)
            events = store.events(campaign)
        stored = [(b.number, m.trial) for b in blocks for m in b.measurements]
        assert len(stored) == len(set(stored))
        assert set(acknowledged) <= set(stored)
        # A kill may fall between the end of a transaction and its acknowledgement.
        assert len(stored) - len(acknowledged) <= turn + 1
        assert sum(e.kind == "measured" for e in events) == len(stored)
        assert [e.number for e in events] == list(range(1, len(events) + 1))
        for b in blocks:
            assert b.state is not BlockState.RUNNING
            assert list(b.measurements) == [
                records.measurement(m.trial, m.trial) for m in b.measurements
            ]
            if b.state is BlockState.COMPLETE:
                assert len(b.measurements) == child.ARMS


def test_two_processes_number_events_without_gap(
    store: Store, state_directory: Path, start: Start
) -> None:
    campaign = records.begun(store, trials=0)
    processes = [start("count", state_directory, campaign) for _ in range(2)]
    for process in processes:
        go(process)
    for process in processes:
        process.communicate()
        assert process.returncode == 0
    assert [e.number for e in store.events(campaign)] == list(range(1, 82))


def test_each_trial_is_taken_by_one_process(
    store: Store, state_directory: Path, start: Start
) -> None:
    campaign = store.create_campaign("c", "{}", 0, records.NOON).id
    for number in range(30):
        store.add_trial(campaign, records.trial(number, TrialState.QUEUED), records.event())
    processes = [start("take", state_directory, campaign) for _ in range(2)]
    for process in processes:
        go(process)
    taken = [int(word) for p in processes for word in p.communicate()[0].split()]
    assert sorted(taken) == list(range(30))
    assert {t.state for t in store.trials(campaign)} == {TrialState.RUNNING}


def test_several_processes_make_the_same_store(state_directory: Path, start: Start) -> None:
    processes = [start("open", state_directory, "") for _ in range(4)]
    for process in processes:
        go(process)
    for process in processes:
        process.communicate()
        assert process.returncode == 0


def test_a_reader_does_not_wait_for_a_writer(store: Store, state_directory: Path) -> None:
    campaign = records.begun(store)
    with Store.open(state_directory) as other, other._change(campaign):
        assert len(store.trials(campaign)) == 2
