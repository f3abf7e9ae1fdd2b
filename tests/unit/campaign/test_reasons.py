"""Why nothing is recommended: the reason that an answer without a certificate gives."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from tests.unit.campaign.histories import History, rules, trial
from tests.unit.campaign.means_guide import configuration
from tuner.judge.certify import Certificate, CertificateOutcome, PairedTimes, certify
from tuner.model import BASELINE
from tuner.plan.answer import recommendation
from tuner.plan.rules import Rules
from tuner.plan.steps import Finish, Phase, Plan
from tuner.propose.prediction import Prediction

RULES = rules(max_trials=3)
TRIALS = [trial(number, min(number, 1)) for number in range(4)]
NOTHING = "none of 3 configurations tried looked 2.0% faster than the baseline"


def reason(plan: Plan, of: Rules = RULES) -> str:
    return recommendation(plan, TRIALS, of, lambda c: {}, lambda c: {}).reason


def at_end(step: Finish, room: int) -> Plan:
    return Plan(step, Phase.DONE, 1, BASELINE, (), {}, (), room=room)


def looks(number: int, gain: float) -> Prediction:
    return Prediction(configuration(number), gain, 0.01, 1.0, ())


def undecided(gain: float, noise: float) -> Certificate:
    """The certificate after eight blocks with this gain and noise."""
    pairs = [
        PairedTimes((math.exp(step * noise - gain),) * 2, (1.0, 1.0))
        for step in (-1.0, 1.0, -0.5, 0.5) * 2
    ]
    certificate = certify(pairs, RULES.weights, floor=0.05, alpha=0.015, max_n=20)
    assert certificate.outcome is CertificateOutcome.UNDECIDED
    return certificate


@pytest.mark.parametrize(
    ("best", "room", "expected"),
    [
        (None, 0, NOTHING),
        (looks(1, 0.01), 0, NOTHING),
        (
            looks(1, 0.1125),
            2,
            "what looks best is 11.9% faster than the baseline, but the budget has no room left "
            "for the 3 fresh blocks that a certificate takes",
        ),
        (
            looks(4, 0.1125),
            9,
            "what looks best is 11.9% faster than the baseline, but it was not among the 3 "
            "configurations allowed",
        ),
        (
            looks(1, 0.1125),
            9,
            "what looks best is 11.9% faster than the baseline, but was unlikely to be certified "
            "with the rest of the budget",
        ),
    ],
)
def test_without_a_finalist_what_looks_best_decides_the_reason(
    best: Prediction | None, room: int, expected: str
) -> None:
    assert reason(replace(at_end(Finish(None, None), room), best=best)) == expected


RULED_OUT = "not certified, as a gain above 2.0%, the least worth acting on, is ruled out: "
WITHIN = "not certified within the budget: "
GIVEN_UP = "not certified, and given up, as further blocks promised no better answer: "


@pytest.mark.parametrize(
    ("certificate", "room", "compares", "beginning"),
    [
        (undecided(0.0, 0.005), 9, False, RULED_OUT),
        (undecided(0.0, 0.005), 9, True, RULED_OUT),
        (undecided(0.0, 0.1), 0, False, WITHIN),
        (undecided(0.0, 0.1), 1, True, WITHIN),
        (undecided(0.0, 0.1), 1, False, GIVEN_UP),
    ],
)
def test_an_undecided_certificate_names_the_budget_only_if_no_block_fits(
    certificate: Certificate, room: int, compares: bool, beginning: str
) -> None:
    of = replace(RULES, compares=compares)
    plan = at_end(Finish(1, certificate), room)
    assert reason(plan, of).startswith(beginning)
    beside = replace(plan, step=Finish(1, certificate, others={2: certificate}))
    notes = recommendation(beside, TRIALS, of, lambda c: {}, lambda c: {}).notes
    assert compares or any(beginning in note for note in notes)


@pytest.mark.parametrize(
    ("further", "beginning"),
    [
        (0, None),
        (1, "judged with another fresh block too"),
        (3, "judged with 3 further fresh blocks too"),
    ],
)
def test_fresh_blocks_that_left_the_gain_open_are_mentioned(
    further: int, beginning: str | None
) -> None:
    pairs = [PairedTimes((0.8 * math.exp(step / 100.0),) * 2, (1.0, 1.0)) for step in range(8)]
    certificate = certify(pairs, RULES.weights, floor=0.05, alpha=0.015, max_n=20)
    assert certificate.outcome is CertificateOutcome.CERTIFIED
    plan = at_end(Finish(1, certificate, further=further), 0)
    answer = recommendation(plan, TRIALS, RULES, lambda c: {}, lambda c: {})
    notes = [note for note in answer.notes if "would be open again" in note]
    assert len(notes) == (beginning is not None)
    assert all(note.startswith(beginning or "") for note in notes)


def test_a_plan_knows_what_looks_best_and_how_many_blocks_fit() -> None:
    history = History(rules(budget_measurements=17, max_trials=3), {1: 0.9}, noise=0.001)
    history.run()
    last = history.plans[-1]
    left = 17 - sum(len(block.measurements) for block in history.blocks)
    assert last.room == left // 2
    assert history.plans[0].room == 8
