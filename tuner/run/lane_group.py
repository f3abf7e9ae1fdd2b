"""The testbeds of one run: opened at its start, possibly lost one by one, always given back.

Owns the messages about each of them; ``measuring`` measures on them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from tuner.errors import CampaignHalted, InUseError, TestbedError, TunerError, evidence
from tuner.measure.workload import Workload
from tuner.model import BlockTimes
from tuner.plan.halting import void_reason
from tuner.plan.steps import RunBlock
from tuner.records.standing import Observer
from tuner.run.event_writer import EventWriter
from tuner.run.lanes import Activities, CampaignTestbed, Lane, LaneObserver, Stopped
from tuner.run.ledger import Ledgers
from tuner.run.leftovers import LEFTOVER_KINDS
from tuner.services.testbed import ReadyTestbed, Recoverable, Unavailable
from tuner.states import BlockState, EventKind

#: After this time, a run is tried again that others kept from one of its hosts.
_AGAIN = timedelta(minutes=5)


class Closed(Exception):
    """The run ends because its testbeds may not be used now; ``until``: when the next may begin."""

    def __init__(self, testbeds: Sequence[Unavailable]) -> None:
        super().__init__(testbeds[0].reason)
        self.until = min(each.until for each in testbeds)


class LaneGroup:
    """One lane for each testbed of a campaign.

    ``together``: whether the specification lists several testbeds. The campaign can lose one of
    them and continue on the others, and messages name the testbed they are about. ``patient``: a
    host that others hold is a reason to wait, not a failure.
    """

    def __init__(
        self,
        testbeds: Sequence[CampaignTestbed],
        writer: EventWriter,
        observer: Observer,
        *,
        together: bool,
        patient: bool = False,
    ) -> None:
        self.ledgers = Ledgers([each.testbed.clock for each in testbeds])
        self._together = together
        self._patient = patient
        self._lanes = [
            Lane(each.name, each.label, each.testbed, ledger)
            for each, ledger in zip(testbeds, self.ledgers.each, strict=True)
        ]
        self._losses: list[TunerError] = []
        #: Lost only because they must not be used yet.
        self._left_out: list[Lane] = []
        self._writer = writer
        self._observer = observer
        self._doing = observer.doing
        self._activities = Activities(observer)
        self._campaign = ""

    def expect_changes(self, campaign: str, names: Collection[str]) -> None:
        """Note which testbeds earlier runs of the campaign have used: a run that was cut off may
        have left them changed, so they are restored whatever becomes of this run. ``names``: the
        values of ``event_data``, "" for a single testbed.
        """
        self._campaign = campaign
        for lane in self._lanes:
            lane.was_used = self.event_data(lane).get("testbed", "") in names

    def open(self, campaign: str, workload: Workload) -> None:
        """Open the testbeds. One of several that fails, or that may not be used now, is lost; a
        single one that fails raises. Raises Closed if none may be used now, without having opened
        any, and if others hold a host and the group is patient.
        """
        self._campaign = campaign
        closed = _closed(self._lanes)
        for lane in self._lanes:
            if lane.label in closed:
                self.lose(lane, TestbedError(closed[lane.label].reason))
                self._left_out.append(lane)
                continue
            with self.ledgers.run.on("testbed"):
                if lane.testbed.claim(campaign):
                    text = "bringing up the testbed for this campaign"
                    self._writer.tell(
                        "testbed-owned", f"{self.prefix(lane)}{text}", self.event_data(lane)
                    )
                try:
                    lane.open(workload, self.observer(lane).doing)
                except TestbedError as problem:
                    if not self._together:
                        raise
                    self.lose(lane, problem)
                except InUseError as problem:
                    if not self._patient:
                        raise
                    again = datetime.now(UTC) + _AGAIN
                    raise Closed([Unavailable(str(problem), again)]) from problem

    @property
    def have_file(self) -> bool:
        """Whether any of them has a testbed file."""
        return any(isinstance(lane.testbed, Recoverable) for lane in self._lanes)

    def in_use(self) -> list[Lane]:
        """The testbeds that were opened and are not lost."""
        return [lane for lane in self._lanes if lane.lost is None and lane.ready is not None]

    def ready(self) -> ReadyTestbed:
        """The first usable testbed. If none is left, raises the error of the last one lost."""
        ready = next((lane.ready for lane in self.in_use()), None)
        if ready is None:
            raise self._losses[-1]
        return ready

    def lose(self, lane: Lane, problem: TunerError) -> None:
        """Continue without a testbed, after restoring it as far as that is possible now."""
        lane.lost = problem
        self._losses.append(problem)
        text = f"{self.prefix(lane)}no longer used: {problem}"
        self._writer.tell(
            EventKind.TESTBED_LOST, text, {**self.event_data(lane), **evidence(problem)}
        )
        with self.ledgers.run.on("testbed"):
            events, failure = lane.give_back(self._campaign, self._doing)
        self.tell_restored(lane, events, failure)
        self.observer(lane).doing("")

    def observer(self, lane: Lane) -> Observer:
        """Return the observer for what happens on a testbed."""
        if not self._together:
            return self._observer
        return LaneObserver(self._activities, lane.label)

    def available(self) -> list[Lane]:
        """Return the testbeds that may be used now.

        If none is left, raises the error of the last one lost. Raises Closed if they are only
        unavailable at present, or if one that was left out at the start may be used by now: the
        next run opens it too.
        """
        usable = [lane for lane in self._lanes if lane.usable]
        if not usable:
            raise self._losses[-1]
        closed = _closed([*usable, *self._left_out])
        for lane in self._left_out:
            if lane.label not in closed:
                reason = f"testbed {lane.label} may be used now: the campaign continues on it too"
                raise Closed([Unavailable(reason, datetime.now(UTC))])
        return [lane for lane in usable if lane.label not in closed]

    def look_at(
        self,
        lanes: Sequence[Lane],
        endings: Sequence[BaseException | None],
        blocks: Mapping[int, BlockTimes],
        steps: Sequence[RunBlock],
        failed: Collection[int],
    ) -> None:
        """Handle the results of blocks that were measured concurrently.

        A testbed that failed, or had too many void blocks in a row that no ``failed`` trial
        explains, is lost; any other error is raised.
        """
        for problem in endings:
            if problem is not None and not isinstance(
                problem, TestbedError | CampaignHalted | Stopped
            ):
                raise problem
        for lane, step, problem in zip(lanes, steps, endings, strict=True):
            self.observer(lane).doing("")
            block = blocks[step.number]
            # Blocks, not their number: a trial may fail after the first void that it explains.
            lane.voids = [*lane.voids, block] if block.state is BlockState.VOID else []
            if isinstance(problem, TestbedError | CampaignHalted):
                self.lose(lane, problem)
            elif (reason := void_reason(lane.voids, failed)) is not None:
                self.lose(lane, CampaignHalted(reason))

    def give_back(self) -> list[tuple[Lane, list[tuple[str, str]], TunerError | None]]:
        """Restore every testbed that is not in its original state yet; see ``Lane.give_back``."""
        with self.ledgers.run.on("testbed"):
            lanes = [lane for lane in self._lanes if not lane.is_back]
            return [(lane, *lane.give_back(self._campaign, self._doing)) for lane in lanes]

    def tell_restored(
        self, lane: Lane, events: Sequence[tuple[str, str]], failure: TunerError | None
    ) -> list[str]:
        """Report what was restored on a testbed, and what could not be; returns the sentences."""
        sentences = [f"{self.prefix(lane)}{sentence}" for _, sentence in events]
        for (kind, plain), sentence in zip(events, sentences, strict=True):
            # Those on leftovers are compared with later ones.
            message = plain if kind in LEFTOVER_KINDS else sentence
            self._writer.tell(kind, message, self.event_data(lane))
        if failure is not None:
            text = f"{self.prefix(lane)}not everything could be restored: {failure}"
            self._writer.tell(
                EventKind.RESTORE_FAILED, text, {**self.event_data(lane), **evidence(failure)}
            )
        return sentences

    def prefix(self, lane: Lane) -> str:
        """Prefix for a sentence about one of several testbeds; "" if there is only one."""
        return f"{lane.label}: " if self._together else ""

    def event_data(self, lane: Lane) -> dict[str, str]:
        """Additional data of an event about one of several testbeds."""
        return {"testbed": lane.name or lane.label} if self._together else {}


def _closed(lanes: Sequence[Lane]) -> dict[str, Unavailable]:
    """Return why testbeds must not be used now, by label. Closed: none may be."""
    answers = {lane.label: lane.testbed.unavailable() for lane in lanes}
    closed = {label: answer for label, answer in answers.items() if answer is not None}
    if len(closed) == len(lanes):
        raise Closed(list(closed.values()))
    return closed
