"""What runs of a campaign may have left on a testbed: processes that still run, and files.

A run that fails removes its files itself, within a minute. One whose connection was lost cannot,
and may still be running. What is left is removed before the next run, and before the testbed is
restored; what cannot be removed is reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass, field

from tuner.errors import TunerError
from tuner.measure.workload_run import LEFTOVERS_S, Engine
from tuner.model import Event
from tuner.services.testbed import ReadyTestbed
from tuner.states import EventKind

#: The kinds of the events that say what could not be removed, and that earlier ones no longer hold.
LEFTOVER_KINDS = (EventKind.LEFTOVERS, EventKind.LEFTOVERS_REMOVED)
#: Time to remove files of runs while the settings measured last are still in effect.
_BEFORE_RESTORING_S = 20.0


@dataclass(slots=True)
class Leftovers:
    """Removes what runs of a campaign have left on an open testbed, between its runs.

    ``tell``: called once with the kind and sentence of each event on what could not be removed.
    ``sentences``: those of earlier events that still hold.
    """

    ready: ReadyTestbed
    campaign: str
    tell: Callable[[str, str], None]
    sentences: set[str] = field(default_factory=set)
    _may_still_run: bool = False
    _may_have_files: bool = False
    _elsewhere: tuple[str, ...] = ()

    def expect(self, *, running: bool = False) -> None:
        """Note that a run has failed. ``running``: it may go on, as its connection was lost."""
        self._may_have_files = True
        self._may_still_run = self._may_still_run or running

    def remove_earlier(self) -> None:
        """Remove what earlier runs of fstune have left. Raises TestbedError if one does not end.

        What cannot be removed yet, say for lack of a token, is removed before the first run.
        """
        self.ready.engine.end_runs(self.campaign)
        self._may_have_files = bool(self.ready.engine.clean_leftovers(self.campaign))
        self._elsewhere = of_references(self.ready, self.campaign) + of_others(self.ready)
        if not self._may_have_files:
            self._report(())

    def end_runs(self) -> None:
        """Before a configuration is applied, end what still runs. Raises TestbedError."""
        if self._may_still_run:
            self.ready.engine.end_runs(self.campaign)
            self._may_still_run = False

    def remove(self) -> None:
        """Remove what is left, once a configuration is in effect: its client can be used."""
        if self._may_have_files:
            self._may_have_files = False
            self._report(remains(self.ready.engine, self.campaign))

    def last(self, left: Sequence[str]) -> list[tuple[str, str]]:
        """Return the events of the last clean-up, kinds and sentences. ``left``: what remains."""
        events, self.sentences = events_of(left, self.sentences), {*left}
        return events

    def _report(self, left: Sequence[str]) -> None:
        """Tell what has changed. ``left``: what remains of runs of the campaign itself."""
        earlier = self.sentences
        events = self.last([*left, *self._elsewhere])
        is_over = any(kind == EventKind.LEFTOVERS_REMOVED for kind, _ in events)
        for kind, sentence in events:
            if is_over or sentence not in earlier:
                self.tell(kind, sentence)


def events_of(left: Sequence[str], earlier: Set[str] = frozenset()) -> list[tuple[str, str]]:
    """Return the kinds and sentences of the events on what remains, ``left``, after a clean-up of
    everything. ``earlier``: the sentences of earlier events that still hold. If one no longer does,
    the first event says so of all of them.
    """
    events: list[tuple[str, str]] = [(EventKind.LEFTOVERS, sentence) for sentence in left]
    if earlier - {*left}:
        message = "what runs had left is removed: nothing is to be removed by hand"
        if left:  # perhaps only since a client could not be searched again
            message = "earlier messages on what runs had left are replaced by those that follow"
        events.insert(0, (EventKind.LEFTOVERS_REMOVED, message))
    return events


def still_left(events: Iterable[Event]) -> list[Event]:
    """Return the events, of a campaign's in order, that name what still has to be removed. What is
    named more than once counts from the first time.
    """
    left: list[Event] = []
    for event in events:
        testbed = event.data.get("testbed")
        if event.kind == EventKind.LEFTOVERS:
            if not any(one.message == event.message and _is_on(one, testbed) for one in left):
                left.append(event)
        elif event.kind == EventKind.LEFTOVERS_REMOVED:
            left = [one for one in left if not _is_on(one, testbed)]
    return left


def sentences_on(events: Iterable[Event], testbed: str | None) -> set[str]:
    """Return the sentences of ``still_left`` on a testbed; None: the only one."""
    return {event.message for event in still_left(events) if _is_on(event, testbed)}


def _is_on(event: Event, testbed: object) -> bool:
    """Whether an event is about a testbed. Those about an only one need not name it."""
    return testbed is None or event.data.get("testbed") in (None, testbed)


def remains(engine: Engine, campaign: str, within_s: float = LEFTOVERS_S) -> tuple[str, ...]:
    """Remove what runs of a campaign have left; return a sentence on each thing that remains."""
    try:
        return engine.clean_leftovers(campaign, within_s)
    except TunerError as problem:
        return (f"what runs have left was not removed: {problem}",)


def before_restoring(engine: Engine, campaign: str) -> tuple[str, ...]:
    """Clean up before a testbed is restored: a workload may keep a client in use, and removing
    files may take the token that is destroyed then. Return as ``remains`` does. It takes little
    time: if the server hangs, restoring it helps.
    """
    return remains(engine, campaign, _BEFORE_RESTORING_S)


def of_references(ready: ReadyTestbed, campaign: str) -> tuple[str, ...]:
    """Remove what runs of the references have left; return as ``remains`` does."""
    return tuple(s for each in ready.references for s in remains(each.engine, campaign))


def of_others(ready: ReadyTestbed) -> tuple[str, ...]:
    """Remove what campaigns and applications have left whose processes died; return as ``remains``
    does. It takes little time: the testbed may have to be restored.
    """
    return tuple(s for name in ready.predecessors for s in before_restoring(ready.engine, name))
