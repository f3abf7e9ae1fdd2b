"""An answer that later measurements contradict is no longer offered, at once and once only."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from tests.recommending import recommending
from tests.unit.campaign.campaigns import THREADS, Recorder, faster, spec
from tests.unit.campaign.conftest import Begin
from tests.unit.plan.histories import planner, rules
from tuner.apply.destination import recommended
from tuner.errors import ConfigurationError, NotFoundError
from tuner.judge.adjustment import no_adjustment
from tuner.judge.certify import Certificate, CertificateOutcome, PairedTimes, certify
from tuner.model import BASELINE, Answer, BlockKind, Campaign
from tuner.plan.steps import Finish, Halt, Phase, Plan, RunBlock
from tuner.report.answer import claim
from tuner.run.event_writer import EventWriter
from tuner.run.notes import Notes
from tuner.services.simulated import testbed as simulated
from tuner.states import CampaignState, TrialState
from tuner.store import NewEvent, Store

RULES = rules()
TARGET: Any = SimpleNamespace(flags=lambda c: {}, risks=lambda c: {})
NEXT = RunBlock.shuffled(1, 9, BlockKind.CERTIFY, 1, (1,))
SEARCHING = Plan(NEXT, Phase.SEARCH, 1, BASELINE, (), {}, ())


def certificate(ratio: float) -> Certificate:
    """The certificate of a trial whose second component takes this many times as long."""
    noise = (0.99, 1.0, 1.01) * 8
    pairs = [PairedTimes((0.8 * n, ratio * n), (1.0, 1.0)) for n in noise]
    return certify(pairs, RULES.weights, floor=0.05, components=RULES.components)


CERTIFIED, SPOILT = certificate(0.8), certificate(1.35)


@pytest.fixture
def offering(store: Store) -> Campaign:
    """A stored campaign that offers trial 1."""
    return recommending(store, spec(faster()), {THREADS: 9}, {THREADS: 200})


def write(store: Store, campaign: Campaign, plan: Plan) -> None:
    """Note a plan as a run does that has just begun or was just resumed."""
    writer = EventWriter(store, campaign.id, Recorder())
    notes = Notes(store, campaign.id, planner(RULES), TARGET, writer, together=False)
    notes.write(store.trials(campaign.id), plan)


def test_an_answer_that_is_contradicted_is_withdrawn_once(store: Store, offering: Campaign) -> None:
    assert CERTIFIED.outcome is CertificateOutcome.CERTIFIED
    plan = replace(SEARCHING, certificates={1: SPOILT})
    for _ in range(2):
        write(store, offering, plan)
        answer = store.campaign(offering.id).recommendation
        assert answer is not None
        assert (answer.answer, answer.trial) == (Answer.NO_IMPROVEMENT, BASELINE)
        assert answer.configuration == answer.baseline
        assert answer.reason.startswith("trial 1 was certified, and is withdrawn: read is ")
        assert answer.reason.endswith(", more than the floor of 5.0%")
        assert claim(answer) == "No trial is certified, so no improvement is claimed."
    assert [e.kind for e in store.events(offering.id)].count("withdrawn") == 1
    with pytest.raises(NotFoundError, match="nothing better than the baseline"):
        recommended(store.campaign(offering.id))

    write(store, offering, replace(SEARCHING, answers=(Finish(1, CERTIFIED, attempt=1),)))
    assert recommended(store.campaign(offering.id)).trial == 1


@pytest.mark.parametrize("same", [False, True])
def test_a_withdrawal_names_an_adjustment_that_has_changed(
    store: Store, offering: Campaign, same: bool
) -> None:
    none = no_adjustment(2, "no adjustment: too few blocks").score
    answer = offering.recommendation
    assert answer is not None
    if same:
        answer = replace(answer, notes=(none.reason,))
        event = NewEvent(datetime.now(UTC), "certified", "it is certified")
        store.save_recommendation(offering.id, answer, event)
    plan = replace(SEARCHING, certificates={1: SPOILT}, adjustments={1: none})
    write(store, offering, plan)
    after = store.campaign(offering.id).recommendation
    assert after is not None
    floor = ", more than the floor of 5.0%"
    assert after.reason.endswith(floor if same else f"{floor}; {none.reason}")


def test_an_answer_that_does_not_run_is_withdrawn_with_the_reason(
    store: Store, offering: Campaign
) -> None:
    event = NewEvent(datetime.now(UTC), "trial-failed", "it failed")
    store.move_trial(offering.id, 1, TrialState.FAILED, "it does not start", event)
    write(store, offering, SEARCHING)
    answer = store.campaign(offering.id).recommendation
    assert answer is not None
    assert answer.reason == (
        "trial 1 was certified, and is withdrawn: it does not run: it does not start"
    )


@pytest.mark.parametrize(
    "plan",
    [replace(SEARCHING, step=Halt("void")), replace(SEARCHING, phase=Phase.PILOT)],
    ids=["halt", "pilot"],
)
def test_a_plan_that_judged_no_certificate_withdraws_nothing(
    store: Store, offering: Campaign, plan: Plan
) -> None:
    write(store, offering, plan)
    assert store.campaign(offering.id) == offering


@pytest.mark.slow
def test_a_campaign_withdraws_what_fails_after_its_certificate(
    begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = begin(spec(faster(-0.2), noise=0.02))
    apply = simulated._SimulatedPart.apply

    def failing_apply(
        part: simulated._SimulatedPart, values: dict[str, int], *, restart: bool
    ) -> str | None:
        if "certified" in campaign.kinds() and values.get("threads", 0) >= 150:
            raise ConfigurationError("it does not start any more")
        return apply(part, values, restart=restart)

    monkeypatch.setattr(simulated._SimulatedPart, "apply", failing_apply)
    outcome = campaign.run()
    assert outcome.campaign.state is CampaignState.FINISHED
    kinds = campaign.kinds()
    assert kinds.index("certified") < kinds.index("withdrawn") < kinds.index("recommendation")
    assert "certified" not in kinds[kinds.index("withdrawn") :]
    assert outcome.campaign.recommendation is not None
    assert outcome.campaign.recommendation.answer is Answer.NO_IMPROVEMENT
