"""Several finalists, certified in the same blocks and sharing one error."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.campaign.histories import History, rules
from tuner.judge.certify import CertificateOutcome
from tuner.model import BASELINE, Answer, BlockKind, Recommendation
from tuner.plan.answer import recommendation
from tuner.plan.attempts import alpha_of
from tuner.plan.steps import Finish, RunBlock
from tuner.propose.prediction import Contribution


def in_race(count: int = 2) -> History:
    """Three trials of which the first two are fast, but not clearly better than each other."""
    return History(rules(max_trials=3, finalists=count), {1: 0.9, 2: 0.905}, noise=0.02)


def fresh_orders(history: History) -> list[set[int]]:
    return [set(b.order) for b in history.blocks if b.kind is BlockKind.CERTIFY]


def answered(history: History) -> Recommendation:
    plan = history.plans[-1]
    return recommendation(plan, history.trials, history.rules, lambda c: {}, lambda c: {})


@pytest.mark.slow
def test_as_many_are_certified_as_the_campaign_asks_for() -> None:
    for count in (1, 2):
        history = in_race(count)
        step = history.run()
        assert isinstance(step, Finish)
        assert len(fresh_orders(history)[0]) == 1 + count
        assert len(step.others) == count - 1


def test_one_that_does_not_look_fast_is_no_finalist() -> None:
    history = History(rules(max_trials=3, finalists=3), {1: 0.85})
    history.run()
    assert fresh_orders(history)[0] == {BASELINE, 1}


@pytest.mark.slow
def test_both_can_be_certified_and_the_other_is_reported() -> None:
    history = in_race()
    step = history.run()
    assert isinstance(step, Finish)
    assert step.certificate is not None
    every = [step.certificate, *step.others.values()]
    assert [c.outcome for c in every] == [CertificateOutcome.CERTIFIED] * 2
    answer = answered(history)
    assert answer.answer is Answer.RECOMMENDED
    (other,) = step.others
    (note,) = [note for note in answer.notes if "is also certified: " in note]
    assert note.startswith(f"trial {other}, with 1 setting, is also certified: ")
    assert note.endswith(
        f"trial {step.finalist}, with 1 setting, is the better answer by all measurements"
    )
    assert step.certificate.least_improvement >= step.others[other].least_improvement


@pytest.mark.slow
def test_the_answer_reports_the_contribution_of_each_setting() -> None:
    history = in_race(1)
    step = history.run()
    assert isinstance(step, Finish)
    contributions = (
        Contribution("server.p", 0.08, 0.01),
        Contribution("server.q", 0.005, 0.01),
        Contribution("server.r", -0.07, 0.026),
    )
    plan = replace(history.plans[-1], step=replace(step, contributions=contributions))
    answer = recommendation(plan, history.trials, history.rules, lambda c: {}, lambda c: {})
    (note,) = [note for note in answer.notes if note.startswith("effects of the settings by")]
    assert "without server.p 8.3% slower (95% interval 6.2% to 10.5% slower)" in note
    assert (
        "without server.q no difference is shown (95% interval 2.5% slower to 1.5% faster)" in note
    )
    assert "without server.r 7.3% faster (95% interval 1.9% to 12.9% faster)" in note


@pytest.mark.slow
def test_the_error_is_shared() -> None:
    """Each of two finalists is judged at half the attempt's error until one is certified."""
    history = in_race()
    step = history.run()
    assert isinstance(step, Finish)
    assert step.certificate is not None
    levels = sorted(c.alpha for c in (step.certificate, *step.others.values()))
    assert levels[0] == pytest.approx(alpha_of(1) / 2)
    alone = in_race(1)
    alone.run()
    assert answered(alone).confidence == pytest.approx(1.0 - 2.0 * alpha_of(1))
    assert answered(history).confidence == 1.0 - 2.0 * step.certificate.alpha


@pytest.mark.slow
def test_one_that_is_settled_leaves_the_blocks() -> None:
    history = in_race()
    history.run(until=lambda s: isinstance(s, RunBlock) and s.kind is BlockKind.CERTIFY)
    history.ratios = {1: 1.3, 2: 0.97}
    step = history.run()
    assert isinstance(step, Finish)
    orders = fresh_orders(history)
    assert orders[0] == {BASELINE, 1, 2}
    assert orders[-1] == {BASELINE, 2}
    assert step.finalist == 2


@pytest.mark.slow
def test_when_one_fails_the_other_can_still_be_recommended() -> None:
    whole = in_race()
    whole.run()
    first = next(b.number for b in whole.blocks if b.kind is BlockKind.CERTIFY)
    best = whole.plans[-1].step
    assert isinstance(best, Finish)
    assert best.finalist is not None
    failing = in_race()
    failing.fails = {best.finalist: first + 1}
    step = failing.run()
    assert isinstance(step, Finish)
    assert step.finalist == 3 - best.finalist
    assert not step.others
    assert answered(failing).answer is Answer.RECOMMENDED


@pytest.mark.slow
def test_without_a_certificate_the_largest_improvement_of_any_is_reported() -> None:
    history = in_race()
    history.run(until=lambda s: isinstance(s, RunBlock) and s.kind is BlockKind.CERTIFY)
    history.ratios = {}
    step = history.run()
    assert isinstance(step, Finish)
    assert step.certificate is not None
    answer = answered(history)
    assert answer.answer is Answer.NO_IMPROVEMENT
    every = [step.certificate, *step.others.values()]
    assert len(every) == 2
    largest = max(c.largest_compatible_improvement for c in every)
    assert answer.largest_compatible_improvement == largest
