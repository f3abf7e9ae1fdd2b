"""Attempts at a certificate in a plan: begun, given up, successful, and followed by better ones."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import groupby, pairwise

import pytest

from tests.unit.plan.histories import History, planner, rules
from tests.unit.plan.test_answering import attempt
from tests.unit.plan.test_planner import certified, fresh_orders
from tuner.judge.adjustment import DifferenceAdjustment
from tuner.judge.assumptions import Alarm, Guard, GuardKind
from tuner.judge.certify import CertificateOutcome
from tuner.model import BASELINE, Block, BlockKind, Configuration, Measurement
from tuner.plan import judging
from tuner.plan.answer import recommendation
from tuner.plan.answering import Look, answers_so_far
from tuner.plan.certifying import nearest
from tuner.plan.steps import Explore, Finish, Step
from tuner.propose.prediction import Prediction


def begins_an_attempt(step: Step) -> bool:
    return isinstance(step, Explore) and step.kind is BlockKind.CERTIFY


@pytest.mark.slow
def test_a_certificate_does_not_end_the_search_and_something_better_is_certified() -> None:
    history = History(rules(), {1: 0.9, 5: 0.7})
    assert certified(history.run()) == 5
    last = history.plans[-1]
    assert isinstance(last.step, Finish)
    assert last.step.others[1].outcome is CertificateOutcome.CERTIFIED
    answers = [p.answer.finalist for p in history.plans if p.answer is not None]
    assert list(dict.fromkeys(answers)) == [1, 5]
    rounds = dict.fromkeys(b.round for b in history.blocks if b.kind is BlockKind.CERTIFY)
    kinds = [k for k, _ in groupby(b.kind for b in history.blocks)]
    assert len(rounds) == 2
    assert kinds[:4] == [BlockKind.SEARCH, BlockKind.CERTIFY] * 2


@pytest.mark.slow
def test_an_answer_once_certified_stays_one() -> None:
    history = History(rules(), {1: 0.9, 5: 0.7})
    history.run()
    first = next(n for n, p in enumerate(history.plans) if p.answer is not None)
    bounds = []
    for plan in history.plans[first:]:
        assert plan.answer is not None
        assert plan.answer.certificate is not None
        assert plan.answer.certificate.outcome is CertificateOutcome.CERTIFIED
        bounds.append((plan.answer.finalist, plan.answer.certificate.least_improvement))
    # Further blocks may lower the smallest gain shown; a replacement never does.
    for (before, least), (after, better) in pairwise(bounds):
        assert after == before or better > least


def certified_then(ratio: float) -> History:
    """Run a campaign that certifies a trial, whose time ratio is ``ratio`` in all blocks after
    that.
    """
    history = History(rules(max_trials=3, certify_blocks=12), {1: 0.93}, noise=0.02)
    history.run(until=lambda step: history.plans[-1].answer is not None)
    history.ratios = {1: ratio}
    history.run()
    return history


def test_what_is_certified_gets_further_fresh_blocks() -> None:
    history = certified_then(0.93)
    first = next(p.answer for p in history.plans if p.answer is not None)
    last = history.plans[-1].answer
    assert last is not None
    assert first.certificate is not None
    assert last.certificate is not None
    assert last.certificate.verdict.n > first.certificate.verdict.n
    widths = [a.certificate.verdict.interval for a in (first, last) if a.certificate is not None]
    assert widths[1].upper - widths[1].lower < widths[0].upper - widths[0].lower
    assert last.certificate.verdict.n <= 12


@pytest.mark.slow
def test_further_blocks_that_leave_a_certificate_open_do_not_withdraw_it() -> None:
    history = certified_then(1.0)
    first = next(p.answer for p in history.plans if p.answer is not None)
    assert first.certificate is not None
    last = history.plans[-1].answer
    assert last is not None
    assert last.latest is not None
    assert last.latest.verdict.n == first.certificate.verdict.n + 9
    assert last == replace(first, latest=last.latest)
    assert history.plans[-1].step == last


def test_further_blocks_that_contradict_a_certificate_withdraw_it() -> None:
    history = certified_then(1.5)
    assert history.plans[-1].answer is None
    assert certified(history.plans[-1].step) is None


@pytest.mark.slow
def test_a_plan_names_the_adjustment_of_each_finalist() -> None:
    history = History(rules(max_trials=3, adjust=True), {1: 0.8}, noise=0.001)
    history.run()
    last = history.plans[-1]
    assert last.certificates.keys() == last.adjustments.keys() != set()
    assert {each.reason for each in last.adjustments.values()} == {
        "no adjustment: other load on the machines was not recorded"
    }


def warning(reason: str) -> Guard:
    return Guard(GuardKind.TREND, Alarm.WARN, 1.0, 4.0, 20, reason)


def adjustment(reason: str) -> DifferenceAdjustment:
    return DifferenceAdjustment((0.1,), 1.0, 0.5, reason)


def test_an_answer_keeps_the_terms_of_its_own_attempt() -> None:
    first, second, failed = (
        replace(
            attempt(gain, trial),
            guards=(warning(f"warning {trial}"),),
            adjustments={trial: adjustment(f"adjusted {trial}")},
        )
        for trial, gain in ((1, 0.2), (2, 0.3), (3, 0.0))
    )

    def prediction(trial: int) -> Prediction:
        return Prediction(Configuration.of({}), trial / 10.0, 0.01, 1.0, (), 1)

    answers = answers_so_far([first, second, failed], [Look({1, 2}, prediction)], 0.02)
    terms = [(each.guards, each.adjustment) for each in answers]
    assert terms == [(each.guards, each.adjustments[n]) for n, each in ((1, first), (2, second))]
    none = nearest([failed, replace(attempt(-0.1, 4), guards=(warning("warning 4"),))])
    assert (none.finalist, none.guards) == (3, failed.guards)
    assert none.adjustment == failed.adjustments[3]
    assert nearest([]) == Finish(None, None)


def test_a_recommendation_has_the_caveats_of_its_own_attempt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The second attempt fails. Each guard names the block at which it was checked."""
    monkeypatch.setattr(judging, "guards", lambda _, until: (warning(f"doubt at {until}"),))
    history = History(rules(), {1: 0.9, 5: 0.7})
    steps: list[Step] = []

    def keep(step: Step) -> bool:
        steps.append(step)
        return False

    history.run(until=lambda step: begins_an_attempt(step) and keep(step))
    history = History(rules(), {1: 0.9, 5: 0.7})
    second = steps[1]
    history.run(until=lambda step: step == second)
    history.ratios = {1: 0.9}
    history.run()
    plan = history.plans[-1]
    assert isinstance(plan.step, Finish)
    assert (plan.step.finalist, plan.step.attempt) == (1, 1)
    advice = recommendation(plan, history.trials, history.rules, lambda c: {}, lambda c: {})
    fresh = [n for n, b in enumerate(history.blocks) if b.kind is BlockKind.CERTIFY]
    own = [n for n in fresh if 1 in history.blocks[n].order]
    (doubt,) = [note for note in advice.notes if note.startswith("doubt at ")]
    assert doubt == f"doubt at {own[-1]}"
    assert plan.guards != plan.step.guards


def test_a_caveat_says_which_losses_are_ruled_out_at_a_larger_error() -> None:
    history = History(rules(), {1: 0.7})
    history.run()
    plan = history.plans[-1]
    assert isinstance(plan.step, Finish)
    certificate = plan.step.certificate
    assert certificate is not None
    parts = tuple(replace(part, holds=False) for part in certificate.components)
    step = replace(plan.step, certificate=replace(certificate, components=parts))
    plan = replace(plan, step=step)
    advice = recommendation(plan, history.trials, history.rules, lambda c: {}, lambda c: {})
    (caveat,) = [note for note in advice.notes if "shown to lose no more" in note]
    assert " with only 80% confidence for each component; " in caveat
    level = f"{100.0 * (1.0 - certificate.alpha):.4g}%"
    interval = f"{100.0 * advice.confidence:.3g}% interval"
    assert caveat.endswith(f"; the gain is shown with {level}, one end of its {interval}")


def test_it_stops_at_the_first_certificate_if_asked_to() -> None:
    history = History(rules(stop_certified=True), {1: 0.9, 5: 0.7})
    assert certified(history.run()) == 1
    assert history.blocks[-1].kind is BlockKind.CERTIFY
    assert len({b.round for b in history.blocks if b.kind is BlockKind.CERTIFY}) == 1


@pytest.mark.slow
def test_the_search_uses_the_budget_after_a_certificate() -> None:
    history = History(rules(budget_measurements=120, max_trials=None), {1: 0.85})
    assert certified(history.run()) == 1
    last_fresh = max(n for n, b in enumerate(history.blocks) if b.kind is BlockKind.CERTIFY)
    assert last_fresh < len(history.blocks) - 10
    assert 120 - 4 < sum(len(b.measurements) for b in history.blocks) <= 120


def test_a_finalist_that_fails_is_not_recommended() -> None:
    whole = History(rules(max_trials=3), {1: 0.9})
    whole.run()
    first_fresh = next(b.number for b in whole.blocks if b.kind is BlockKind.CERTIFY)
    history = History(rules(max_trials=3), {1: 0.9}, fails={1: first_fresh + 1})
    assert certified(history.run()) is None
    assert history.plans[-1].answer is None


def test_what_is_certified_once_stays_the_answer_though_it_fails_later() -> None:
    """Its fresh blocks showed a gain, but a configuration that fails is not recommended."""
    whole = History(rules(max_trials=6), {1: 0.9})
    whole.run()
    last_fresh = max(b.number for b in whole.blocks if b.kind is BlockKind.CERTIFY)
    later = next(b.number for b in whole.blocks if b.number > last_fresh and 1 in b.order)
    history = History(rules(max_trials=6), {1: 0.9}, fails={1: later})
    assert certified(history.run()) is None


def test_an_attempt_goes_on_with_its_finalist_while_its_blocks_look_bad() -> None:
    """The runner-up does not become a finalist in blocks that were begun for another trial."""
    history = History(rules(max_trials=3), {1: 0.9, 2: 0.95})
    history.run(until=begins_an_attempt)
    step = history.plans[-1].step
    assert isinstance(step, Explore)
    ((finalist,),) = step.groups
    history.ratios = {1: 1.2, 2: 0.7}
    history.run()
    first = history.blocks[[b.kind for b in history.blocks].index(BlockKind.CERTIFY)]
    mine = [b for b in history.blocks if b.round == first.round]
    assert {b.kind for b in mine} == {BlockKind.CERTIFY}
    assert all(set(b.order) == {finalist, BASELINE} for b in mine)
    assert history.plans[-1].answer is None or history.plans[-1].answer.finalist != finalist


@pytest.mark.slow
def test_a_hopeless_attempt_is_given_up_for_a_better_candidate() -> None:
    history = History(rules(certify_blocks=20), {1: 0.9})
    history.run(until=begins_an_attempt)
    history.ratios = {1: 1.0, 5: 0.9}
    assert certified(history.run()) == 5
    first, *_ = {b.round for b in history.blocks if b.kind is BlockKind.CERTIFY}
    assert sum(b.round == first for b in history.blocks) < 20


@pytest.mark.slow
def test_each_attempt_has_less_error() -> None:
    history = History(rules(), {1: 0.9, 5: 0.7})
    history.run()
    last = history.plans[-1].step
    assert isinstance(last, Finish)
    assert last.certificate is not None
    assert last.others[1].alpha == pytest.approx(0.6 * 0.025)
    assert last.certificate.alpha == pytest.approx(0.4 * 0.6 * 0.025)


def test_certification_ignores_search_blocks() -> None:
    history = History(rules(max_trials=3), {1: 0.9})
    step = history.run()
    assert isinstance(step, Finish)
    assert step.certificate is not None
    assert step.certificate.verdict.n == len(fresh_orders(history))
    altered = [
        replace(b, measurements=swapped(b)) if b.kind is BlockKind.SEARCH else b
        for b in history.blocks
    ]
    again = planner(history.rules).plan(history.trials, altered)
    assert again.answer is not None
    assert again.answer.certificate == step.certificate


def swapped(block: Block) -> tuple[Measurement, ...]:
    """Return the measurements of the block with their times exchanged."""
    times = [m.components for m in block.measurements]
    pairs = zip(block.measurements, [*times[1:], *times[:1]], strict=True)
    return tuple(replace(m, components=components) for m, components in pairs)


def test_certification_stops_at_its_last_block() -> None:
    limits = rules(max_trials=3, certify_blocks=4, budget_measurements=150)
    history = History(limits, {1: 0.94}, noise=0.03)
    step = history.run()
    assert isinstance(step, Finish)
    attempts = Counter(b.round for b in history.blocks if b.kind is BlockKind.CERTIFY)
    assert max(attempts.values(), default=0) <= 4
