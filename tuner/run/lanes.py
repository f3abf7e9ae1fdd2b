"""The testbeds of one run, and work done on several of them concurrently."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from tuner.errors import CampaignHalted, TestbedError, TunerError
from tuner.interruption import check, finishing, is_asked
from tuner.measure.workload import Workload
from tuner.model import BlockTimes, Event
from tuner.plan.steps import RunBlock
from tuner.records.standing import Observer, Standing
from tuner.run.ledger import Ledger
from tuner.run.leftovers import before_restoring, events_of, of_references, remains
from tuner.run.measuring import BlockRunner
from tuner.services.testbed import ReadyTestbed, Recoverable, Testbed
from tuner.states import EventKind
from tuner.stop_signals import holding_off_stops

#: How to restore the hosts of a testbed file, also when nothing else may be done there.
BY_HAND = "to only restore the hosts: fstune testbed restore FILE"
_POLL_S = 0.5


@dataclass(frozen=True, slots=True)
class CampaignTestbed:
    """A testbed of a campaign.

    ``name``: identifies the testbed across campaigns; None if no other campaign can refer to it.
    ``label``: what messages call it.
    """

    name: str | None
    label: str
    testbed: Testbed


class Stopped(Exception):
    """The run is ending because of work on another testbed."""


@dataclass(slots=True)
class Lane:
    """A campaign's testbed within a run, and the objects open on it.

    ``ready``: the testbed once it is open. ``blocks``: runs blocks on it. ``lost``: why it is no
    longer used. ``voids``: its void blocks since the last complete one. ``is_back``: its original
    settings are in effect again. ``was_used``: an earlier run of the campaign used it, and may have
    left it changed.
    """

    name: str | None
    label: str
    testbed: Testbed
    ledger: Ledger
    ready: ReadyTestbed | None = None
    blocks: BlockRunner | None = None
    lost: TunerError | None = None
    voids: list[BlockTimes] = field(default_factory=list)
    is_back: bool = False
    was_used: bool = False

    @property
    def usable(self) -> bool:
        """Whether blocks can be measured on it."""
        return self.blocks is not None and self.lost is None

    def open(self, workload: Workload, say: Callable[[str], None]) -> None:
        """See ``Testbed.open``."""
        self.ready = self.testbed.open(workload, say)

    def give_back(
        self, campaign: str, doing: Callable[[str], None]
    ) -> tuple[list[tuple[str, str]], TunerError | None]:
        """Clean up, restore and close the testbed, without using the store, which may be what
        failed. One that could not be opened, or must not be used now, is also restored if an
        earlier run may have left it changed.

        Returns event kinds with their sentences, and the error, if any.
        """
        events: list[tuple[str, str]] = []
        failure: TunerError | None = None
        if self.ready is None:
            events += self._recover(campaign, doing)
        else:
            left = before_restoring(self.ready.engine, campaign)
            try:
                events += [
                    (EventKind.RESTORED, sentence) for sentence in self.ready.target.restore(doing)
                ]
                if left:
                    left = remains(self.ready.engine, campaign)
                left += of_references(self.ready, campaign)
            except TunerError as problem:
                failure = problem
            blocks = None if failure is not None else self.blocks
            events += events_of(left) if blocks is None else blocks.leftovers.last(left)
        try:
            if (closed := self.testbed.close()) is not None:
                events.append((EventKind.TESTBED_CLOSED, closed))
        except TunerError as problem:
            failure = failure or problem
        self.is_back = failure is None
        return events, failure

    def _recover(self, campaign: str, doing: Callable[[str], None]) -> Iterator[tuple[str, str]]:
        """Restore a testbed that is not open. What fails is not an error of this run."""
        if not self.was_used or not isinstance(self.testbed, Recoverable):
            return
        doing("restoring what an earlier run has changed")
        try:
            for sentence in self.testbed.recover(campaign):
                yield EventKind.RESTORED, sentence
        except TunerError as problem:
            yield (
                EventKind.RESTORE_FAILED,
                f"not everything could be restored: {problem}; {BY_HAND}",
            )

    def end_runs(self, campaign: str) -> None:
        """End the workload running on it; harmless if none is running or no host answers."""
        if self.ready is not None:
            with suppress(TunerError):
                self.ready.engine.end_runs(campaign)


def assigned(steps: Sequence[RunBlock], lanes: Sequence[Lane]) -> list[Lane]:
    """Return a testbed for each block: where the block's slot was cut off, if possible, otherwise
    the next free one. ``lanes``: at least as many as blocks.
    """
    free = list(lanes)
    lanes_by_step: dict[int, Lane] = {}
    for step in steps:
        lane = next((each for each in free if each.name == step.testbed), None)
        if lane is not None and step.testbed is not None:
            lanes_by_step[step.number] = lane
            free.remove(lane)
    for step in steps:
        if step.number not in lanes_by_step:
            lanes_by_step[step.number] = free.pop(0)
    return [lanes_by_step[step.number] for step in steps]


def at_once(
    lanes: Sequence[Lane],
    work: Sequence[Callable[[], None]],
    halt: threading.Event,
    campaign: str,
    say: Callable[[str], None],
) -> list[BaseException | None]:
    """Do each piece of work for its lane, in a thread; returns the exception of each, or None.

    ``halt`` is set when one ends with anything other than a failure of its testbed, so that the
    others end too. If this thread is interrupted (KeyboardInterrupt), the others are halted as
    well, what runs on the testbeds is ended, and the interrupt is raised once all have ended. A
    patient interrupt lets the workload runs finish.
    """
    endings: list[BaseException | None] = [None] * len(work)

    def do(index: int) -> None:
        try:
            work[index]()
        except BaseException as problem:  # passed on to the waiting thread, whatever it is
            endings[index] = problem
            if not isinstance(problem, TestbedError | CampaignHalted):
                halt.set()

    threads = [
        threading.Thread(target=do, args=(index,), name=lane.label)
        for index, lane in enumerate(lanes)
    ]
    running: list[threading.Thread] = []
    try:
        with finishing():
            for thread in threads:
                running.append(thread)
                thread.start()
            for thread in threads:
                while thread.is_alive():
                    thread.join(_POLL_S)
                    check()
                    if is_asked():
                        halt.set()
        check()
    except BaseException:
        halt.set()
        with holding_off_stops(say):
            for thread, lane in zip(running, lanes, strict=False):
                while thread.is_alive():
                    lane.end_runs(campaign)
                    thread.join(_POLL_S)
        raise
    return endings


@dataclass(slots=True)
class Activities:
    """Combines the current activity on each testbed into one line for an observer."""

    observer: Observer
    _what: dict[str, str] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def tell(self, label: str, what: str) -> None:
        """Set the current activity on one testbed; "" for none."""
        with self._lock:
            self._what[label] = what
            message = "; ".join(f"{name}: {doing}" for name, doing in self._what.items() if doing)
            self.observer.doing(message)


@dataclass(frozen=True, slots=True)
class LaneObserver:
    """Passes the activity on one testbed to the observer of a campaign."""

    activities: Activities
    label: str

    def say(self, event: Event) -> None:
        """See Observer.say."""
        self.activities.observer.say(event)

    def doing(self, what: str) -> None:
        """See Observer.doing."""
        self.activities.tell(self.label, what)

    def standing(self, standing: Standing) -> None:
        """See Observer.standing."""
        self.activities.observer.standing(standing)
