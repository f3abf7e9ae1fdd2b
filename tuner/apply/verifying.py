"""Verification: measures a recommended configuration against the previous one in fresh blocks.

A verification is stored as a campaign with two configurations and no search: trial 0 is the
previous configuration, trial 1 the recommended one, whichever of them is in force. What is in
effect when it begins is restored at the end.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime

from tuner.applications import Application
from tuner.apply.actor import Actor, reason_of
from tuner.apply.destination import Destination
from tuner.apply.open_testbed import Say
from tuner.apply.plan import in_neither, unknown
from tuner.apply.verify_verdict import LEAST_BLOCKS, Verified, verified
from tuner.documents import MOST_NAME
from tuner.errors import (
    CampaignHalted,
    ConfigurationError,
    ConflictError,
    SpecError,
    StoreError,
    TunerError,
)
from tuner.interruption import check
from tuner.judge.auto_floor import FLOORS
from tuner.model import (
    BASELINE,
    Answer,
    BlockKind,
    Campaign,
    Configuration,
    Event,
    Recommendation,
    Trial,
)
from tuner.plan.rules import Rules, rules_of
from tuner.plan.scores import ScoreTable
from tuner.plan.steps import RunBlock
from tuner.records.differences import names_of_changes
from tuner.records.standing import Observer, Standing
from tuner.run.context import RunContext
from tuner.run.equivalence import as_found
from tuner.run.event_writer import EventWriter
from tuner.run.failures import RELEASE, Failures, failed_runs
from tuner.run.holding import LeaseKeeper
from tuner.run.lanes import Lane
from tuner.run.ledger import Ledgers
from tuner.run.measuring import BlockRunner
from tuner.services.target import Target
from tuner.services.testbed import NamesHolder, ReadyTestbed
from tuner.spec.campaign import CampaignSpec
from tuner.states import CampaignState, EventKind, TrialState, VerifyOutcome
from tuner.stop_signals import holding_off_stops
from tuner.store import NewEvent
from tuner.store.verifications import Verifications

_CANDIDATE = BASELINE + 1
#: Void blocks that are tolerated for each requested block.
_MOST_VOID = 1
_NAMES = {BASELINE: "as it was before", _CANDIDATE: "as recommended"}


class _Quiet:
    """An observer that only forwards the messages of events."""

    def __init__(self, say: Say) -> None:
        self._say = say

    def say(self, event: Event) -> None:
        self._say(event.message)

    def doing(self, what: str) -> None:
        """Ignored: too detailed."""

    def standing(self, standing: Standing) -> None:
        """Ignored: a verification has no standing."""


def verify(
    actor: Actor,
    campaign: Campaign,
    answer: Recommendation,
    before: Configuration,
    after: Configuration,
    destination: Destination,
    blocks: int,
    *,
    request: int | None = None,
) -> tuple[Campaign, Verified]:
    """Measure ``after`` against ``before`` in ``blocks`` blocks. Return the stored verification and
    its verdict on the certificate of ``answer``, which can be judged only if ``before`` is its
    baseline. ``campaign``: the one that recommended ``after``; ``request``: the number of its event
    that requested this, if any.

    Raises SpecError, before anything is stored, for too few blocks and for settings that the search
    spaces no longer have; TunerError when it cannot be measured, KeyboardInterrupt on a stop
    signal: the settings that were in effect are restored first.
    """
    if blocks < LEAST_BLOCKS:
        raise SpecError(f"--blocks: at least {LEAST_BLOCKS}")
    if answer.upper is None:
        raise SpecError(f"campaign {campaign.id} certified nothing that could be verified")
    spaces = destination.needs.spaces
    if wrong := list(dict.fromkeys([*unknown(after, spaces), *unknown(before, spaces)])):
        raise SpecError(f"the recommendation cannot be verified: {'; '.join(wrong)}")
    spec = _spec(destination, after, blocks)
    now = datetime.now(UTC)
    verification = actor.store.create_campaign(spec.name, spec.to_json(), spec.seed, now)
    message = f"it verifies campaign {campaign.id}"
    whose = {"verifies": campaign.id, "request": request}
    actor.store.add_event(verification.id, NewEvent(now, EventKind.VERIFICATION, message, whose))
    observer = _Quiet(actor.say)
    writer = EventWriter(actor.store, verification.id, observer)
    rules = rules_of(spec, destination.needs.workload)
    run = _Verification(
        actor, verification.id, campaign, answer, destination, rules, observer, writer
    )
    state, reason = CampaignState.CANCELLED, "it was interrupted"
    # Held until the end is stored: without its testbed, a verification that runs counts as dead.
    with ExitStack() as stack:
        try:
            holding = stack.enter_context(actor.holding(verification.id, destination))
            message = f"{actor.by} verifies campaign {campaign.id}"
            writer.move(CampaignState.RUNNING, "", EventKind.STARTED, message, RELEASE)
            ratios, caveats = run.measure(holding, (before, after), blocks)
            result = verified(ratios, answer.upper, names_of_changes(answer.baseline, before))
            caveats += failed_runs(actor.store, verification.id, _CANDIDATE)
            result = replace(result, caveat="; ".join(caveats))
            run.keep(result)
            state, reason = CampaignState.FINISHED, ""
        except KeyboardInterrupt as stop:
            reason = f"stopped by {str(stop) or 'Ctrl-C'}"
            raise
        except TunerError as problem:
            state, reason = CampaignState.FAILED, str(problem)
            raise
        finally:
            with holding_off_stops(actor.say):
                void = writer.event(EventKind.BLOCK_VOID, reason)
                actor.store.void_running_blocks(verification.id, reason, void)
                message = f"verification {state}: {reason or result.outcome}"
                writer.move(state, reason, f"campaign-{state}", message)
    # Last of all: readers of this event take the verification as finished.
    run.tell(result, request)
    return actor.store.campaign(verification.id), result


def check_certified(application: Application, answer: Recommendation) -> None:
    """Raise ConflictError when a campaign now recommends another configuration than was applied,
    because its certificate then says nothing about the applied one.
    """
    if application.after != answer.configuration:
        raise ConflictError(
            f"campaign {application.campaign} now recommends another configuration than "
            f"{application.id} applies: apply the new one first, then verify it"
        )


@contextmanager
def telling_failure(actor: Actor, campaign: str, request: int | None) -> Iterator[None]:
    """If the body fails, record the reason in the campaign whose event ``request`` requested the
    verification; None: there was no request, so nothing is recorded.
    """
    try:
        yield
    except BaseException as problem:
        if request is not None:
            with suppress(StoreError):
                Verifications(actor.store).fail(campaign, request, reason_of(problem))
        raise


def for_requester(actor: Actor, campaign: str, request: int | None) -> Actor:
    """Return ``actor``, in the name of the person who requested the verification of a campaign with
    its event ``request``, if anybody did.
    """
    for event in Verifications(actor.store).of(campaign):
        if (event.number, event.kind) == (request, EventKind.VERIFY_REQUESTED):
            # Requests of earlier releases have no name there.
            return replace(actor, by=str(event.data.get("asked_by", actor.by)))
    return actor


def _spec(destination: Destination, after: Configuration, blocks: int) -> CampaignSpec:
    spec = destination.spec
    update = {
        "name": f"verify {spec.name}"[:MOST_NAME],
        "testbed": destination.section,
        "testbeds": (),
        "first": (after.as_dict(),),
        "pilot": spec.pilot.model_copy(update={"blocks": 0}),
        # A verification has no requirements on components, and no pilot that could choose a floor.
        "statistics": spec.statistics.model_copy(
            update={"floor": spec.statistics.given_floor or FLOORS[-1]}
        ),
        "search": spec.search.model_copy(update={"arms": 1, "max_trials": 1}),
        "certification": spec.certification.model_copy(update={"blocks": blocks}),
        "references": (),
        "compare": {},
        "warm_start": "none",
        "seed": secrets.randbits(32),
    }
    return spec.model_copy(update=update)


@dataclass(frozen=True, slots=True)
class _Verification:
    """A verification that runs. ``id``: its own as a campaign; ``campaign``: the one that it
    verifies, with its ``answer``.
    """

    actor: Actor
    id: str
    campaign: Campaign
    answer: Recommendation
    destination: Destination
    rules: Rules
    observer: Observer
    writer: EventWriter

    def measure(
        self,
        holding: LeaseKeeper,
        configurations: tuple[Configuration, Configuration],
        blocks: int,
    ) -> tuple[list[float], tuple[str, ...]]:
        """Return log ratios of the recommended configuration to the previous one, one per block,
        and a caveat if neither was in effect.
        """
        testbed = self.destination.lasting()
        ledgers = Ledgers([testbed.clock])
        testbed.claim(self.id)
        if isinstance(testbed, NamesHolder):  # so that nobody is told to resume it
            testbed.say_verification()
        lane = Lane(self.destination.name, self.destination.name, testbed, ledgers.each[0])
        try:
            lane.open(self.destination.needs.workload, self.actor.say)
            ready = lane.ready
            assert ready is not None
            message = f"testbed ready: {ready.target.identity}"
            self.writer.tell(EventKind.TESTBED_READY, message, as_found(ready))
            caveats = _caveats(ready.target, configurations)
            for caveat in caveats:
                self.actor.say(f"warning: {caveat}")
            trials = _trials(ready, configurations)
            self.actor.store.set_baseline(
                self.id, configurations[0], self.writer.event("baseline", "what was there before")
            )
            added = [(trial, self.writer.trial(trial)) for trial in trials.values()]
            self.actor.store.add_trials(self.id, added)

            def safe_point() -> None:
                check()
                holding.check()
                if (request := self.actor.store.request(self.id)) is not None:
                    raise KeyboardInterrupt(f"a request to {request.wish} from {request.asked_by}")

            context = RunContext(
                store=self.actor.store,
                campaign=self.id,
                rules=self.rules,
                testbed=self.destination.name,
                ready=ready,
                ledger=lane.ledger,
                observer=self.observer,
                writer=self.writer,
                failures=Failures(),
                writing_use=ledgers.writing,
                check_stop=check,
                safe_point=safe_point,
            )
            runner = lane.blocks = BlockRunner(context)

            def run(number: int) -> None:
                if (closed := testbed.unavailable()) is not None:
                    raise CampaignHalted(closed.reason)
                safe_point()
                step = RunBlock.shuffled(
                    self.rules.seed, number, BlockKind.CERTIFY, 1, [_CANDIDATE]
                )
                block, event = runner.beginning(step)
                event_row = self.actor.store.begin_block(
                    self.id, block, event, holding.lease(self.destination.name)
                )
                runner.run(step, trials, event_row)
                candidate = self.actor.store.trials(self.id)[_CANDIDATE]
                if candidate.state is TrialState.FAILED:
                    raise ConfigurationError(
                        f"the recommended configuration fails: {candidate.reason}"
                    )

            return self._log_ratios(run, blocks), caveats
        finally:
            with holding_off_stops(self.actor.say):
                events, failure = lane.give_back(self.id, self.actor.say)
                for kind, sentence in events:
                    self.writer.tell(kind, sentence)
                if failure is not None:
                    raise failure

    def _log_ratios(self, run: Callable[[int], None], blocks: int) -> list[float]:
        """Run blocks, by number, until ``blocks`` of them are complete."""
        for number in range(1, blocks * (1 + _MOST_VOID) + 1):
            run(number)
            table = ScoreTable(self.rules.components, self.rules.weights)
            table.extend(self.actor.store.blocks(self.id))
            if len(table.scored) == blocks:
                return [
                    float(one.scores[_CANDIDATE] - one.scores[BASELINE]) for one in table.scored
                ]
        raise CampaignHalted(f"{number} blocks, of which fewer than {blocks} could be completed")

    def keep(self, result: Verified) -> None:
        """Store the result in the verification."""
        trials = self.actor.store.trials(self.id)
        holds = result.outcome is VerifyOutcome.HOLDS
        winner = trials[_CANDIDATE if holds else BASELINE]
        notes = [*self.answer.notes]
        if result.caveat:  # the campaign may have one of the same words
            notes.append(f"in this verification, {result.caveat}")
        if not result.can_be_judged:
            notes.append(result.reason)
        advice = Recommendation(
            answer=Answer.RECOMMENDED if holds else Answer.NO_IMPROVEMENT,
            reason=f"{Recommendation.VERIFICATION}{self.campaign.id} {result.outcome}",
            trial=_CANDIDATE,
            configuration=winner.configuration,
            baseline=trials[BASELINE].configuration,
            flags=winner.flags,
            baseline_flags=trials[BASELINE].flags,
            confidence=result.confidence,
            blocks=result.blocks,
            ratio=result.ratio,
            lower=result.lower,
            upper=result.upper,
            notes=tuple(notes),
            settings=self.answer.settings if holds else {},
        )
        event = self.writer.event(EventKind.RECOMMENDATION, f"the certificate {result.outcome}")
        self.actor.store.save_recommendation(self.id, advice, event)

    def tell(self, result: Verified, request: int | None) -> None:
        """Record the result in the campaign that recommended the configuration."""
        message = (
            f"{self.actor.by} verified it: the certificate {result.outcome} (campaign {self.id})"
        )
        data = {
            "campaign": self.id,
            "request": request,
            "elsewhere": self.destination.other,
            **asdict(result),
        }
        self.actor.store.add_event(
            self.campaign.id, NewEvent(datetime.now(UTC), EventKind.VERIFIED, message, data)
        )


def _trials(
    ready: ReadyTestbed, configurations: tuple[Configuration, Configuration]
) -> dict[int, Trial]:
    return {
        number: Trial(
            number,
            configuration,
            number,
            _NAMES[number],
            TrialState.RUNNING,
            ready.target.flags(configuration),
        )
        for number, configuration in zip(_NAMES, configurations, strict=True)
    }


def _caveats(
    target: Target, configurations: tuple[Configuration, Configuration]
) -> tuple[str, ...]:
    """Return a caveat if neither of the configurations is in effect."""
    sentences: list[str] = []
    for name, part in target.parts.items():
        sentences += in_neither(name, part.space, part.facts, target.baseline, *configurations)
    if not sentences:
        return ()
    settings = "; ".join(sentences)
    return (f"neither of the two configurations was in effect when it began: {settings}",)
