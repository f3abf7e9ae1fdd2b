"""Measures a recommended configuration against the one before it once more, in fresh blocks.

A verification is stored as a campaign with two configurations and no search: trial 0 is what was
there before, trial 1 what is recommended, whichever of them is in force. What is in force is put
back at the end.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from datetime import UTC, datetime

from tuner.applications import Application
from tuner.apply.applying import Hand, reason_of
from tuner.apply.opened import Say
from tuner.apply.place import Site
from tuner.apply.verdict import LEAST_BLOCKS, Verified, VerifyOutcome, verified
from tuner.campaign.equivalence import as_found
from tuner.campaign.event_writer import EventWriter
from tuner.campaign.holding import Held
from tuner.campaign.ledger import Ledgers
from tuner.campaign.measuring import BlockRunner
from tuner.campaign.rules import Rules, rules_of
from tuner.campaign.scores import ScoreTable
from tuner.campaign.spec import CampaignSpec
from tuner.campaign.steps import RunBlock
from tuner.campaign.stopping import undisturbed
from tuner.errors import (
    CampaignHalted,
    ConfigurationError,
    ConflictError,
    SpecError,
    StoreError,
    TunerError,
)
from tuner.interruption import check
from tuner.judge.floors import FLOORS
from tuner.measure.workload import Workload
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
from tuner.records.standing import Observer, Standing
from tuner.services.testbed import Bench
from tuner.states import CampaignState, EventKind, TrialState
from tuner.store import NewEvent
from tuner.store.verifications import Verifications

_CHOSEN = BASELINE + 1
#: Void blocks for each that is asked for, before it is given up.
_MOST_VOID = 1
_NAMES = {BASELINE: "as it was before", _CHOSEN: "as recommended"}


class _Quiet:
    """An observer that passes on what goes on."""

    def __init__(self, say: Say) -> None:
        self._say = say

    def say(self, event: Event) -> None:
        self._say(event.message)

    def doing(self, what: str) -> None:
        """Too much for a line each."""

    def standing(self, standing: Standing) -> None:
        """There is none."""


def verify(
    hand: Hand,
    campaign: Campaign,
    answer: Recommendation,
    before: Configuration,
    after: Configuration,
    site: Site,
    blocks: int,
    *,
    request: int | None = None,
) -> tuple[Campaign, Verified]:
    """Measure ``after`` against ``before`` in so many blocks; what is stored of that, and what it
    says of the certificate of ``answer``. ``campaign``: the one that recommended it; ``request``:
    the number of its event that asked for this, if one did.

    Raises SpecError for too few blocks, TunerError when it cannot be measured, KeyboardInterrupt on
    a stop signal: what is in force is put back first.
    """
    if blocks < LEAST_BLOCKS:
        raise SpecError(f"--blocks: {LEAST_BLOCKS} at least")
    if answer.upper is None:
        raise SpecError(f"campaign {campaign.id} certified nothing that could be verified")
    spec = _spec(site, after, blocks)
    now = datetime.now(UTC)
    stored = hand.store.create_campaign(spec.name, spec.to_json(), spec.seed, now)
    said = f"it verifies campaign {campaign.id}"
    whose = {"verifies": campaign.id, "request": request}
    hand.store.add_event(stored.id, NewEvent(now, EventKind.VERIFICATION, said, whose))
    observer = _Quiet(hand.say)
    writer = EventWriter(hand.store, stored.id, observer, lambda: datetime.now(UTC))
    rules = rules_of(spec, site.wish.workload)
    state, reason = CampaignState.CANCELLED, "it was cut off"
    try:
        with hand.holding(stored.id, site) as holding:
            said = f"{hand.by} verifies campaign {campaign.id}"
            writer.move(CampaignState.RUNNING, "", "campaign-started", said)
            ratios = _measured(
                hand, stored, site, rules, writer, observer, holding, (before, after), blocks
            )
        found = verified(ratios, answer.upper)
        _keep(hand, stored, campaign, answer, found, writer)
        state, reason = CampaignState.FINISHED, ""
    except KeyboardInterrupt as stop:
        reason = f"stopped by {str(stop) or 'Ctrl-C'}"
        raise
    except TunerError as problem:
        state, reason = CampaignState.FAILED, str(problem)
        raise
    finally:
        with undisturbed(hand.say):
            kind = f"campaign-{state}"
            hand.store.void_running_blocks(
                stored.id, reason, NewEvent(datetime.now(UTC), "block-void", reason)
            )
            writer.move(state, reason, kind, f"verification {state}: {reason or found.outcome}")
    # Last of all: whoever reads it may take the verification for finished.
    _tell(hand, stored, campaign, site, found, request)
    return hand.store.campaign(stored.id), found


def check_certified(application: Application, answer: Recommendation) -> None:
    """Raise ConflictError when a campaign's answer is not about what was applied any more: its
    certificate says nothing of that.
    """
    if application.after != answer.configuration:
        raise ConflictError(
            f"campaign {application.campaign} recommends another configuration by now than "
            f"{application.id} applies: apply that one first, then verify it"
        )


@contextmanager
def telling_failure(hand: Hand, campaign: str, request: int | None) -> Iterator[None]:
    """Tell a campaign why what was asked for in its event ``request`` was not verified; None:
    nobody asked there, so nobody is told.
    """
    try:
        yield
    except BaseException as problem:
        if request is not None:
            with suppress(StoreError):
                Verifications(hand.store).fail(campaign, request, reason_of(problem))
        raise


def _spec(site: Site, after: Configuration, blocks: int) -> CampaignSpec:
    spec = site.spec
    update = {
        "name": f"verify {spec.name}"[:100],
        "testbed": site.section,
        "testbeds": (),
        "first": (after.as_dict(),),
        "pilot": spec.pilot.model_copy(update={"blocks": 0}),
        # A verification asks nothing of components, and has no pilot that could choose a floor.
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


def _measured(
    hand: Hand,
    stored: Campaign,
    site: Site,
    rules: Rules,
    writer: EventWriter,
    observer: Observer,
    holding: Held,
    configurations: tuple[Configuration, Configuration],
    blocks: int,
) -> list[float]:
    """The log ratios of the recommended configuration to the one before, a block each."""
    testbed = site.lasting()
    ledgers = Ledgers([testbed.clock])
    testbed.claim(stored.id)
    bench: Bench | None = None
    try:
        workload: Workload = site.wish.workload
        bench = testbed.open(workload, hand.say)
        writer.tell("testbed-ready", f"testbed ready: {bench.target.identity}", as_found(bench))
        trials = _trials(bench, configurations)
        hand.store.set_baseline(
            stored.id, configurations[0], writer.event("baseline", "what was there before")
        )
        added = [(trial, writer.trial(trial)) for trial in trials.values()]
        hand.store.add_trials(stored.id, added)
        bench.engine.clean_leftovers(stored.id)

        def safe_point() -> None:
            check()
            holding.check()

        runner = BlockRunner(
            hand.store,
            stored.id,
            bench,
            ledgers.each[0],
            observer,
            writer.event,
            rules,
            spent=ledgers.writing,
            testbed=site.name,
            safe_point=safe_point,
            check_stop=check,
        )

        def run(number: int) -> None:
            if (why_not := testbed.unavailable()) is not None:
                raise CampaignHalted(f"the testbed must not be used now: {why_not}")
            safe_point()
            step = RunBlock.shuffled(rules.seed, number, BlockKind.CERTIFY, 1, [_CHOSEN])
            block, event = runner.beginning(step)
            begun = hand.store.begin_block(stored.id, block, event, holding.lease(site.name))
            runner.run(step, trials, begun)
            failed = hand.store.trials(stored.id)[_CHOSEN]
            if failed.state is TrialState.FAILED:
                raise ConfigurationError(f"the recommended configuration fails: {failed.reason}")

        return _enough(hand, stored, rules, run, blocks)
    finally:
        with undisturbed(hand.say):
            try:
                if bench is not None:
                    bench.engine.end_runs(stored.id)
                    for sentence in bench.target.restore(hand.say):
                        writer.tell("restored", sentence)
                    bench.engine.clean_leftovers(stored.id)
            finally:
                if (closed := testbed.close()) is not None:
                    writer.tell("testbed-closed", closed)


def _trials(bench: Bench, configurations: tuple[Configuration, Configuration]) -> dict[int, Trial]:
    return {
        number: Trial(
            number,
            configuration,
            number,
            _NAMES[number],
            TrialState.RUNNING,
            bench.target.flags(configuration),
        )
        for number, configuration in zip(_NAMES, configurations, strict=True)
    }


def _enough(
    hand: Hand, stored: Campaign, rules: Rules, run: Callable[[int], None], blocks: int
) -> list[float]:
    for number in range(1, blocks * (1 + _MOST_VOID) + 1):
        run(number)
        table = ScoreTable(rules.components, rules.weights)
        table.extend(hand.store.blocks(stored.id))
        if len(table.scored) == blocks:
            return [float(one.scores[_CHOSEN] - one.scores[BASELINE]) for one in table.scored]
    raise CampaignHalted(f"{number} blocks, and no {blocks} of them could be completed")


def _keep(
    hand: Hand,
    stored: Campaign,
    campaign: Campaign,
    answer: Recommendation,
    found: Verified,
    writer: EventWriter,
) -> None:
    """Write down what was found in the verification."""
    trials = hand.store.trials(stored.id)
    holds = found.outcome is VerifyOutcome.HOLDS
    kept = trials[_CHOSEN if holds else BASELINE]
    told = Recommendation(
        answer=Answer.RECOMMENDED if holds else Answer.NO_IMPROVEMENT,
        reason=f"the certificate of campaign {campaign.id} {found.outcome}",
        trial=_CHOSEN,
        configuration=kept.configuration,
        baseline=trials[BASELINE].configuration,
        flags=kept.flags,
        baseline_flags=trials[BASELINE].flags,
        confidence=found.confidence,
        blocks=found.blocks,
        ratio=found.ratio,
        lower=found.lower,
        upper=found.upper,
        notes=answer.notes,
    )
    event = writer.event("recommended", f"the certificate {found.outcome}")
    hand.store.save_recommendation(stored.id, told, event)


def _tell(
    hand: Hand,
    stored: Campaign,
    campaign: Campaign,
    site: Site,
    found: Verified,
    request: int | None,
) -> None:
    """Write down what was found in the campaign that recommended it."""
    said = f"{hand.by} verified it: the certificate {found.outcome} (campaign {stored.id})"
    data = {"campaign": stored.id, "request": request, "elsewhere": site.other, **asdict(found)}
    hand.store.add_event(campaign.id, NewEvent(datetime.now(UTC), EventKind.VERIFIED, said, data))
