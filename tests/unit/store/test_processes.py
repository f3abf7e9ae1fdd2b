"""Several processes use one store, and some of them are killed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.unit.store import child, records
from tests.unit.store.conftest import Place
from tuner.states import BlockState, TrialState
from tuner.store import Store
from tuner.store.opening import FILE

pytestmark = pytest.mark.slow

Start = Callable[[str, Place, str], "subprocess.Popen[str]"]


@pytest.fixture
def start(root: Path) -> Iterator[Start]:
    """Return a function that starts a child, which waits for a line before it does its task."""
    children: list[subprocess.Popen[str]] = []

    def begin(task: str, place: Place, campaign: str = "") -> subprocess.Popen[str]:
        words = [task, str(place.state_directory), place.address or "", campaign]
        process = subprocess.Popen(
            [sys.executable, "-m", child.__name__, *words],
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
    place: Place, start: Start, acknowledgements: int
) -> None:
    with place.open() as store:
        campaign = records.new_campaign(store, trials=child.ARMS)
    acknowledged: list[tuple[int, int]] = []
    for turn in range(2):
        process = start("measure", place, campaign)
        go(process)
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(acknowledgements)]
        process.kill()
        # What it wrote between the last line read and its end counts as well. Lines that were read
        # ahead are in the buffer of the file, which communicate() ignores.
        rest = process.stdout.read()
        process.wait()
        for line in [*lines, *rest.splitlines()]:
            block, arm = line.split()
            acknowledged.append((int(block), int(arm)))

        with place.open() as store:
            store.void_running_blocks(campaign, "killed", records.event("void"))
            blocks = store.blocks(campaign)
            events = store.events(campaign)
        measurements = [(b.number, m.trial) for b in blocks for m in b.measurements]
        assert len(measurements) == len(set(measurements))
        assert set(acknowledged) <= set(measurements)
        # A kill may fall between the end of a transaction and its acknowledgement.
        assert len(measurements) - len(acknowledged) <= turn + 1
        assert sum(e.kind == "measured" for e in events) == len(measurements)
        assert [e.number for e in events] == list(range(1, len(events) + 1))
        for b in blocks:
            assert b.state is not BlockState.RUNNING
            assert list(b.measurements) == [
                records.measurement(m.trial, m.trial) for m in b.measurements
            ]
            if b.state is BlockState.COMPLETE:
                assert len(b.measurements) == child.ARMS


def test_two_processes_number_events_without_gap(store: Store, place: Place, start: Start) -> None:
    campaign = records.new_campaign(store, trials=0)
    processes = [start("count", place, campaign) for _ in range(2)]
    for process in processes:
        go(process)
    for process in processes:
        process.communicate()
        assert process.returncode == 0
    assert [e.number for e in store.events(campaign)] == list(range(1, 82))


def test_each_trial_is_taken_by_one_process(store: Store, place: Place, start: Start) -> None:
    campaign = store.create_campaign("c", "{}", 0, records.NOON).id
    for number in range(30):
        store.add_trial(campaign, records.trial(number, TrialState.QUEUED), records.event())
    processes = [start("take", place, campaign) for _ in range(2)]
    for process in processes:
        go(process)
    taken = [int(word) for p in processes for word in p.communicate()[0].split()]
    assert sorted(taken) == list(range(30))
    assert {t.state for t in store.trials(campaign)} == {TrialState.RUNNING}


def test_a_full_disk_is_reported_and_survived(tmp_path: Path, root: Path) -> None:
    words = [sys.executable, "-m", child.__name__, "fill", str(tmp_path), "", ""]
    filled = subprocess.run(
        ["unshare", "--mount", "--map-root-user", "--", *words],
        cwd=root,
        input="\n",
        capture_output=True,
        text=True,
        check=False,
    )
    assert filled.returncode == 0, filled.stderr
    ready, *lines, count = filled.stdout.splitlines()
    messages = [line for line in lines if not line.isdigit()]
    assert messages == [
        f"{tmp_path / FILE}: its disk is full; make room and resume (database or disk is full)"
    ]
    numbers = [int(line) for line in lines if line.isdigit()]
    assert ready == "ready"
    assert numbers == list(range(2, int(count) + 1))
    assert len(numbers) - lines.index(messages[0]) == 20


def test_several_processes_create_the_same_store(place: Place, start: Start) -> None:
    processes = [start("open", place, "") for _ in range(4)]
    for process in processes:
        go(process)
    for process in processes:
        process.communicate()
        assert process.returncode == 0


def test_a_reader_does_not_wait_for_a_writer(store: Store, place: Place) -> None:
    campaign = records.new_campaign(store)
    with place.open() as other:
        trials = other._change(campaign, lambda *_: store.trials(campaign))
    assert len(trials) == 2
