"""Assembly of a campaign for all of its users: the command line, the API and workers.

The runner and its optimiser are slow to import and not needed for preparing a campaign, so they are
imported only where a campaign is run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from search_spaces import Space
from tuner.documents import duplicates, in_one_line
from tuner.errors import ConflictError, SpecError, TunerError
from tuner.judge.pilot import Pilot
from tuner.measure.references import ReferencePlan
from tuner.measure.workload import Workload, load_workload
from tuner.model import Aspect, Campaign
from tuner.plan.rules import rules_of
from tuner.records.standing import Observer
from tuner.run.holding import hold_testbeds
from tuner.run.identity import aspects
from tuner.run.lanes import CampaignTestbed
from tuner.run.resume_checks import ChangedError
from tuner.services.kind import Needs, TestbedIdentity
from tuner.services.testbed import Testbed
from tuner.settings import DatabaseSettings
from tuner.spec.campaign import CampaignSpec
from tuner.spec.checking import check_plan
from tuner.spec.space_section import load_space
from tuner.spec.values import wrong_names
from tuner.states import EventKind
from tuner.stop_signals import stop_signals
from tuner.store import NewEvent, Store
from tuner.store.applications import Applications
from tuner.store.leases import Later
from tuner.store.queue import Queue

if TYPE_CHECKING:
    from tuner.run.runner import RunOutcome

_OFF_QUEUE = "off-queue"


@dataclass(frozen=True, slots=True)
class Prepared:
    """A campaign's specification with everything that it names, looked up and checked.

    ``needs``: what it needs from its testbeds; ``identities`` and ``testbeds``: of these, in the
    same order. ``aspects``: what it measures with.
    """

    spec: CampaignSpec
    needs: Needs
    testbeds: tuple[Testbed, ...]
    identities: tuple[TestbedIdentity, ...]
    aspects: Mapping[str, Aspect]

    @property
    def workload(self) -> Workload:
        """The workload."""
        return self.needs.workload

    @property
    def spaces(self) -> Mapping[str, Space]:
        """The search spaces by part, as narrowed by the campaign."""
        return self.needs.spaces

    @property
    def parameters(self) -> frozenset[str]:
        """The qualified names of all parameters."""
        parts = ((part, space.parameters) for part, space in self.spaces.items())
        return frozenset(f"{part}.{each.name}" for part, several in parts for each in several)

    @property
    def testbed(self) -> Testbed:
        """The first testbed."""
        return self.testbeds[0]

    @property
    def identity(self) -> TestbedIdentity:
        """The identity of all its testbeds together."""
        if self.spec.testbed is not None:
            return self.identities[0]
        names = [identity.name for identity in self.identities if identity.name]
        return TestbedIdentity(" + ".join(sorted(names)), "", _documents(self.identities))

    def campaign_testbeds(self, campaign: str) -> list[CampaignTestbed]:
        """Return the testbeds in the form used by a campaign's run, each with a unique name and a
        unique label.
        """
        several = len(self.identities) > 1
        return [
            CampaignTestbed(
                identity.name or f"of campaign {campaign}" + (f", {number}" if several else ""),
                label,
                testbed,
            )
            for number, (identity, label, testbed) in enumerate(
                zip(self.identities, _labels(self.identities), self.testbeds, strict=True), start=1
            )
        ]


def prepare(spec: CampaignSpec, state_directory: Path) -> Prepared:
    """Look up everything that a specification names. Raises SpecError or TestbedError; changes
    nothing.
    """
    needs = look_up(spec)
    wrong = wrong_names(spec, needs.spaces)
    for where, section in spec.named_sections():
        wrong += section.type.mistakes(section.section, where, needs)
    if wrong:
        raise SpecError(in_one_line(wrong))
    services = [section.type.preview(section.section, state_directory) for section in spec.sections]
    check_plan(spec, needs.spaces, services)
    identities = tuple(
        section.type.identity(section.section, state_directory) for section in spec.sections
    )
    _check_distinct(spec, identities)
    testbeds = tuple(
        section.type.testbed(section.section, where, needs, state_directory)
        for where, section in spec.named_sections()
    )
    rules = rules_of(spec, needs.workload)
    document = identities[0].document if spec.testbed is not None else _documents(identities)
    measured_with = aspects(needs.spaces, needs.workload, rules, document)
    return Prepared(spec, needs, testbeds, identities, measured_with)


def look_up(spec: CampaignSpec) -> Needs:
    """Look up what a specification names. Raises one SpecError for everything that is not
    usable.
    """
    spaces, wrong = dict[str, Space](), list[str]()
    workload: Workload | None = None
    try:
        workload = load_workload(spec.workload.name, spec.workload.scale)
    except SpecError as problem:
        wrong.append(str(problem))
    for part, section in spec.spaces.items():
        try:
            spaces[part] = load_space(section, part)
        except SpecError as problem:
            wrong.append(str(problem))
    if workload is None or wrong:
        raise SpecError(in_one_line(wrong))
    references = tuple(ReferencePlan(r.name, r.path, r.every) for r in spec.references)
    return Needs(spaces, workload, references)


def _documents(identities: Sequence[TestbedIdentity]) -> dict[str, object]:
    return {
        "testbeds": {
            identity.name or str(n): identity.document for n, identity in enumerate(identities)
        }
    }


def _check_distinct(spec: CampaignSpec, identities: Sequence[TestbedIdentity]) -> None:
    """Check that several testbeds are distinct and share no client. Raises SpecError."""
    names = [identity.name for identity in identities if identity.name]
    if twice := sorted(duplicates(names)):
        raise SpecError(f"testbeds: {twice[0]} is named twice")
    label_by_host: dict[str, str] = {}
    for (where, section), label in zip(spec.named_sections(), _labels(identities), strict=True):
        for host in section.type.hosts(section.section):
            if host in label_by_host:
                raise SpecError(f"{where}: {label} and {label_by_host[host]} share {host}")
            label_by_host[host] = label


def _labels(identities: Sequence[TestbedIdentity]) -> list[str]:
    """A unique label for each testbed. Files in different directories may have the same name."""
    labels = [one.label or f"testbed {number}" for number, one in enumerate(identities, start=1)]
    return [
        label if labels.count(label) == 1 else f"{label} #{number}"
        for number, label in enumerate(labels, start=1)
    ]


def _refuse_unfinished(store: Store, testbeds: Sequence[str]) -> None:
    """Raise ConflictError when a process died while it applied a configuration on one of these
    testbeds: what is in effect there is uncertain.
    """
    for application in Applications(store).unfinished(testbeds):
        raise ConflictError(application.cut_off)


def _take_off_queue(store: Store, campaign: str, observer: Observer) -> None:
    """Take a campaign that this process runs off the queue: once it is paused here, a worker would
    start it again.
    """
    queue, message = Queue.find(store), "taken off the queue: it was resumed without a worker"
    event = NewEvent(datetime.now(UTC), _OFF_QUEUE, message)
    if queue is not None and queue.withdraw(campaign, event, from_worker=True):
        observer.say(store.events(campaign, kinds=(_OFF_QUEUE,))[-1])


def _later(campaign: Campaign, spec: CampaignSpec, *, from_queue: bool, pilot_only: bool) -> Later:
    """What to do when a testbed is in use. A campaign that was just created is not to be created
    again, and one whose pilot alone was asked for is not to go on to its search.
    """
    if from_queue:
        waits = "the worker tries again"
        return Later(waits, waits)
    override = " --override-pilot" if spec.pilot.override else ""
    again = ", repeat this" if pilot_only else f": fstune resume {campaign.id}{override}"
    return Later(f"when it is free{again}", f"to follow it: fstune watch {campaign.id}")


def _tell_still_queued(store: Store, campaign: str, observer: Observer) -> None:
    """Store that a campaign that was not resumed here still waits for a worker. To the worker, the
    refused run then counts no more than any other run before the campaign was queued.
    """
    queue = Queue.find(store)
    for run in () if queue is None else queue.runs():
        if run.campaign == campaign:
            message = f"still on the queue {run.queue}, for a worker"
            event = NewEvent(datetime.now(UTC), EventKind.QUEUED, message, {"queue": run.queue})
            observer.say(store.add_event(campaign, event))


def conduct(
    store: Store,
    campaign: Campaign,
    prepared: Prepared,
    observer: Observer,
    *,
    pilot_only: bool = False,
    keep_request: bool = False,
    patient: bool = False,
    stopping: Callable[[str], None] | None = None,
) -> tuple[RunOutcome, Pilot | None]:
    """Run a campaign, new or resumed, in this process. Stop signals pause it.

    Returns its outcome and the results of its pilot. ``pilot_only``: pause when the pilot ends.
    ``keep_request``: nobody asked for this run, so it carries out a request that was made to a run
    that died. ``patient``: see ``LaneGroup``. ``stopping``: called with a message by the handler of
    stop signals, by default that of the observer. Raises ConflictError when it must not run now,
    InUseError if only because another process runs it or uses one of its testbeds. A queued
    campaign that is refused stays queued.
    """
    from tuner.run.runner import Runner

    is_queued = not keep_request

    def take_off_queue() -> None:
        nonlocal is_queued
        # Only once: somebody may queue it again as soon as it is paused.
        if is_queued:
            _take_off_queue(store, campaign.id, observer)
            is_queued = False

    testbeds = prepared.campaign_testbeds(campaign.id)
    names = [each.name for each in testbeds if each.name is not None]
    limit_s = DatabaseSettings().takeover_after_s
    later = _later(campaign, prepared.spec, from_queue=keep_request, pilot_only=pilot_only)
    with (
        stop_signals(stopping or observer.doing),
        hold_testbeds(store, campaign.id, names, limit_s, later) as holding,
    ):
        _refuse_unfinished(store, names)
        if not keep_request:
            store.drop_request(campaign.id)
        runner = Runner(
            store,
            campaign.id,
            prepared.spec,
            prepared.workload,
            testbeds,
            observer,
            aspects=prepared.aspects,
            leases=holding,
            pilot_only=pilot_only,
            patient=patient,
            admitted=take_off_queue,
        )
        try:
            outcome = runner.run()
        except ChangedError:
            if not keep_request:
                _tell_still_queued(store, campaign.id, observer)
            raise
        except TunerError:
            take_off_queue()
            raise
        take_off_queue()  # it may have ended before it was admitted
        return outcome, runner.pilot
