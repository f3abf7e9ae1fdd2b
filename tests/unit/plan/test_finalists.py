"""Several finalists, certified in the same blocks and sharing one error."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import pytest

from tests.unit.plan.histories import History, rules
from tests.unit.plan.means_guide import MeansGuide, MeansView, configuration
from tuner.judge.assumptions import GuardKind
from tuner.judge.certify import CertificateOutcome
from tuner.model import BASELINE, Answer, BlockKind, Configuration, Recommendation, Trial
from tuner.plan.answer import recommendation
from tuner.plan.attempts import alpha_of
from tuner.plan.planner import Planner
from tuner.plan.scores import ScoreTable
from tuner.plan.steps import Finish, RunBlock
from tuner.propose.prediction import Contribution, Prediction
from tuner.report.answer import setting_gain


def in_search(count: int = 2) -> History:
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
        history = in_search(count)
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
    history = in_search()
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
    history = in_search(1)
    step = history.run()
    assert isinstance(step, Finish)
    contributions = (
        Contribution("server.p", 0.08, 0.01),
        Contribution("server.q", 0.005, 0.01),
        Contribution("server.r", -0.07, 0.026),
    )
    plan = replace(history.plans[-1], step=replace(step, contributions=contributions))
    answer = recommendation(plan, history.trials, history.rules, lambda c: {}, lambda c: {})
    assert {name: setting_gain(of) for name, of in answer.settings.items()} == {
        "server.p": "+8.3% (+6.2% to +10.5%)",
        "server.q": "+0.5% (-1.5% to +2.5%)",
        "server.r": "-7.3% (-12.9% to -1.9%)",
    }
    (note,) = [note for note in answer.notes if note.startswith("the gain of each setting")]
    assert note.endswith("as these also selected the configuration, it may be optimistic")
    assert "no effect is shown of server.q, which may do nothing" in answer.notes


@pytest.mark.slow
def test_the_answer_says_which_settings_have_no_effect_of_their_own() -> None:
    history = in_search(1)
    step = history.run()
    assert isinstance(step, Finish)
    assert step.finalist is not None
    values = {"server.p": 1, "server.threads": 128}
    trials = [
        replace(t, configuration=Configuration.of(values)) if t.number == step.finalist else t
        for t in history.trials
    ]
    contributions = (Contribution("server.p", 0.08, 0.01),)
    plan = replace(history.plans[-1], step=replace(step, contributions=contributions))
    answer = recommendation(plan, trials, history.rules, lambda c: {}, lambda c: {})
    assert list(answer.settings) == ["server.p"]
    assert (
        "the gain of server.threads is not known, as the campaign never tries the others without"
        in answer.notes
    )


@pytest.mark.slow
def test_the_error_is_shared() -> None:
    """Each of two finalists is judged at half the attempt's error until one is certified."""
    history = in_search()
    step = history.run()
    assert isinstance(step, Finish)
    assert step.certificate is not None
    levels = sorted(c.alpha for c in (step.certificate, *step.others.values()))
    assert levels[0] == pytest.approx(alpha_of(1) / 2)
    opinions = {
        g.reason for p in history.plans for g in p.guards if g.kind is GuardKind.DISAGREEMENT
    }
    share = f" of {2.0 / alpha_of(1):.3g})"
    assert all(reason.endswith(share) for reason in opinions if "e-values" in reason)
    assert any(reason.endswith(share) for reason in opinions)
    alone = in_search(1)
    alone.run()
    assert answered(alone).confidence == pytest.approx(1.0 - 2.0 * alpha_of(1))
    assert answered(history).confidence == 1.0 - 2.0 * step.certificate.alpha


@pytest.mark.slow
def test_one_that_is_settled_leaves_the_blocks() -> None:
    history = in_search()
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
    whole = in_search()
    whole.run()
    first = next(b.number for b in whole.blocks if b.kind is BlockKind.CERTIFY)
    best = whole.plans[-1].step
    assert isinstance(best, Finish)
    assert best.finalist is not None
    failing = in_search()
    failing.fails = {best.finalist: first + 1}
    step = failing.run()
    assert isinstance(step, Finish)
    assert step.finalist == 3 - best.finalist
    assert not step.others
    assert answered(failing).answer is Answer.RECOMMENDED


@pytest.mark.slow
def test_without_a_certificate_the_largest_improvement_of_any_is_reported() -> None:
    history = in_search()
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


def attempts_of(history: History) -> list[set[int]]:
    """The finalists with which each attempt began."""
    fresh = (b for b in history.blocks if b.kind is BlockKind.CERTIFY)
    rounds = groupby(sorted(fresh, key=lambda b: (b.round, b.number)), key=lambda b: b.round)
    return [set(next(blocks).order) - {BASELINE} for _, blocks in rounds]


@pytest.mark.slow
def test_what_is_certified_is_not_certified_again_beside_a_better_candidate() -> None:
    limits = rules(finalists=2, max_trials=None)
    history = History(limits, {1: 0.8, 2: 0.805})
    history.run(until=lambda step: history.plans[-1].answer is not None)
    better = len(history.trials) + 1
    history.ratios = {1: 0.8, 2: 0.805, better: 0.6}
    step = history.run()
    assert isinstance(step, Finish)
    assert step.finalist == better
    first, *later = attempts_of(history)
    assert first == {1, 2}
    assert later
    assert not any(first & each for each in later)


class Dreaming(MeansView):
    """Once every trial exists, expects most of a configuration that was never tried."""

    @property
    def best(self) -> Prediction | None:
        if self._left():
            return super().best
        return Prediction(configuration(999), 0.3, 0.003, 1.0, ((-0.3, 0.003),) * 2)


@dataclass
class DreamingGuide(MeansGuide):
    def look(
        self, trials: Sequence[Trial], table: ScoreTable, out: Collection[int], floor: float
    ) -> MeansView:
        return Dreaming(self, trials, table, frozenset(out))


class DreamingHistory(History):
    def planner(self) -> Planner:
        limits = self.rules
        assert limits.max_trials is not None
        guide = DreamingGuide(limits.weights, limits.race.floor, new=limits.max_trials)
        return Planner(limits, guide)


@pytest.mark.parametrize("count", [1, 2])
def test_where_nothing_may_be_added_what_is_certified_is_measured_further(count: int) -> None:
    """And not certified over and over, in the place of a configuration that is not allowed."""
    limits = rules(max_trials=1, finalists=count, certify_blocks=12)
    history = DreamingHistory(limits, {1: 0.85}, noise=0.03)
    step = history.run()
    assert isinstance(step, Finish)
    assert step.finalist == 1
    assert len(history.trials) == 2
    assert attempts_of(history) == [{1}]
    assert step.certificate is not None
    first = next(p.answer for p in history.plans if p.answer is not None)
    assert first.certificate is not None
    assert step.certificate.verdict.n > first.certificate.verdict.n


def test_where_nothing_may_be_added_a_better_trial_is_still_certified() -> None:
    history = DreamingHistory(rules(max_trials=3), {1: 0.95, 2: 0.95, 3: 0.95}, noise=0.003)
    history.run(until=lambda step: history.plans[-1].answer is not None)
    answer = history.plans[-1].answer
    assert answer is not None
    other = 1 if answer.finalist != 1 else 2
    history.ratios = {1: 0.95, 2: 0.95, 3: 0.95, other: 0.7}
    step = history.run()
    assert isinstance(step, Finish)
    assert step.finalist == other


def test_what_looks_best_but_is_not_allowed_is_named_when_no_trial_is_worth_a_certificate() -> None:
    history = DreamingHistory(rules(max_trials=1, budget_s=400.0))
    assert history.run() == Finish(None, None)
    assert attempts_of(history) == []
    assert answered(history).reason == (
        "what looks best is 35.0% faster than the baseline, but search.max_trials (1) allows no "
        "other configuration"
    )


def test_the_only_configuration_is_not_searched_again_once_it_is_certified() -> None:
    history = History(rules(max_trials=1), {1: 0.8}, noise=0.01)
    assert isinstance(history.run(), Finish)
    kinds = [block.kind for block in history.blocks]
    assert BlockKind.CERTIFY in kinds
    assert BlockKind.SEARCH not in kinds[kinds.index(BlockKind.CERTIFY) :]
