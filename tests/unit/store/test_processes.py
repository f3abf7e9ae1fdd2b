"""Several processes use one store, and some of them are killed."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.unit.store import child, records
from tests.unit.store.child import Child
from tests.unit.store.conftest import Place
from tuner.states import BlockState, TrialState
from tuner.store import Store
from tuner.store.opening import FILE

pytestmark = pytest.mark.slow

Start = Callable[[str, Place, str], Child]


@pytest.fixture(scope="module", autouse=True)
def nothing_left() -> Iterator[None]:
    yield
    child.stop_forking()


@pytest.fixture
def start() -> Iterator[Start]:
    """Return a function that starts a child, which waits before it does its task."""
    children: list[Child] = []

    def begin(task: str, place: Place, campaign: str = "") -> Child:
        children.append(Child(task, place.state_directory, place.address, campaign))
        return children[-1]

    yield begin
    for each in children:
        each.end()


@pytest.mark.parametrize("acknowledgements", [1, 6, 19])
def test_kill_loses_nothing_that_was_acknowledged(
    place: Place, start: Start, acknowledgements: int
) -> None:
    with place.open() as store:
        campaign = records.new_campaign(store, trials=child.ARMS)
    acknowledged: list[tuple[int, int]] = []
    for turn in range(2):
        measuring = start("measure", place, campaign)
        measuring.go()
        acknowledged += [measuring.hear() for _ in range(acknowledgements)]
        measuring.kill()
        # What it reported between the last report heard and its end counts as well.
        acknowledged += measuring.rest()
        assert measuring.process.exitcode == -signal.SIGKILL

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
    children = [start("count", place, campaign) for _ in range(2)]
    for each in children:
        each.go()
    for each in children:
        assert each.rest() == []
        assert each.process.exitcode == 0
    assert [e.number for e in store.events(campaign)] == list(range(1, 82))


def test_each_trial_is_taken_by_one_process(store: Store, place: Place, start: Start) -> None:
    campaign = store.create_campaign("c", "{}", 0, records.NOON).id
    for number in range(30):
        store.add_trials(campaign, [(records.trial(number, TrialState.QUEUED), records.event())])
    children = [start("take", place, campaign) for _ in range(2)]
    for each in children:
        each.go()
    taken = [number for each in children for number in each.rest()]
    assert sorted(taken) == list(range(30))
    assert {t.state for t in store.trials(campaign)} == {TrialState.RUNNING}


def test_a_full_disk_is_reported_and_survived(tmp_path: Path, root: Path) -> None:
    words = [sys.executable, "-m", child.__name__, str(tmp_path)]
    filled = subprocess.run(
        ["unshare", "--mount", "--map-root-user", "--", *words],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    assert filled.returncode == 0, filled.stderr
    *lines, count = filled.stdout.splitlines()
    messages = [line for line in lines if not line.isdigit()]
    assert messages == [
        f"{tmp_path / FILE}: its disk is full; make room and try again; 'fstune resume' continues "
        "a campaign (database or disk is full)"
    ]
    numbers = [int(line) for line in lines if line.isdigit()]
    assert numbers == list(range(2, int(count) + 1))
    assert len(numbers) - lines.index(messages[0]) == 20


def test_several_processes_create_the_same_store(place: Place, start: Start) -> None:
    children = [start("open", place, "") for _ in range(4)]
    for each in children:
        each.go()
    for each in children:
        assert each.rest() == []
        assert each.process.exitcode == 0


def test_a_reader_does_not_wait_for_a_writer(store: Store, place: Place) -> None:
    campaign = records.new_campaign(store)
    with place.open() as other:
        trials = other._change(campaign, lambda *_: store.trials(campaign))
    assert len(trials) == 2
