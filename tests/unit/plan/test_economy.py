"""What the rest of a budget is spent on, depending on what is known and what is left."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from tests.unit.plan.histories import rules
from tuner.judge.certify import CertificateOutcome, PairedTimes, certify
from tuner.judge.evalue import MIN_PAIRS
from tuner.judge.levels import FLOOR_ALPHA
from tuner.judge.score import margin
from tuner.model import Configuration, Trial
from tuner.plan.attempts import alpha_of
from tuner.plan.economy import (
    Move,
    Position,
    attempt_rules,
    candidate,
    finalists,
    forecast_of,
    next_move,
)
from tuner.plan.guide import Noise, Pick
from tuner.plan.rules import Floors, Rules
from tuner.propose.prediction import Contribution, Prediction


def prediction(
    gain: float, error: float = 0.003, loss: float = 0.0, name: int = 1, changes: int = 1
) -> Prediction:
    """A configuration with this gain in both components, or with a loss in the second."""
    parts = ((-gain, error), (loss if loss else -gain, error))
    return Prediction(Configuration.of({"server.p": name}), gain, error, 1.0, parts, changes)


NOISE = Noise(0.02, (0.02, 0.02))


@dataclass
class Stub:
    """A view with fixed answers. ``hopes``: the probability that something gains more;
    ``simpler``: what it says when it is asked for fewer settings, the best one by default;
    ``compared``: with which configurations.
    """

    best: Prediction | None
    hopes: float = 0.5
    noise: Noise = NOISE
    simpler: Prediction | None = None
    compared: list[Configuration] = field(default_factory=list)

    def simplest(self, certified: Configuration) -> Prediction | None:
        self.compared.append(certified)
        return self.simpler or self.best

    def hope(self, gain: float, *, new: bool) -> float:
        return self.hopes

    def prediction(self, trial: Trial) -> Prediction:
        raise AssertionError("nobody asks")

    def contributions(self, trial: Trial) -> Sequence[Contribution]:
        raise AssertionError("nobody asks")

    def picks(self, count: int, most_new: int | None) -> Sequence[Pick]:
        raise AssertionError("nobody asks")


def position(*, can_search: bool = True, **changed: Any) -> Position:
    usual: dict[str, Any] = {
        "attempt": 1,
        "arms_left": 200.0,
        "total_arms": 250.0,
        "measured": 50,
        "can_search": lambda: can_search,
    }
    return Position(**(usual | changed))


def move(
    view: Stub, arms_left: float = 200.0, *, limits: Rules | None = None, **changed: Any
) -> Move:
    here = position(arms_left=arms_left, **changed)
    return next_move(view, candidate(view, limits or rules(), here), limits or rules(), here)


def test_an_attempt_of_more_blocks_than_can_be_planned_is_planned_for_fewer() -> None:
    """Stored campaigns may have up to 1000."""
    many, most = (
        forecast_of(prediction(0.05), NOISE, rules(certify_blocks=blocks), 1, 20)
        for blocks in (1000, 500)
    )
    assert many == most


def test_before_anything_is_measured_it_searches() -> None:
    assert move(Stub(None), math.inf, total_arms=math.inf) is Move.SEARCH
    assert move(Stub(prediction(0.03, 0.03)), math.inf, total_arms=math.inf) is Move.SEARCH


def test_while_it_is_unsure_it_searches() -> None:
    assert move(Stub(prediction(0.05, error=0.05))) is Move.SEARCH


def test_a_likely_and_cheap_attempt_begins_at_once() -> None:
    assert move(Stub(prediction(0.2), hopes=0.9)) is Move.CERTIFY


def test_a_likely_but_costly_attempt_waits_while_something_better_is_in_prospect() -> None:
    likely = prediction(0.04)
    assert forecast_of(likely, Stub(None).noise, rules(), 1, 20).power > 0.85
    assert move(Stub(likely, hopes=0.6), 30.0, total_arms=120.0) is Move.SEARCH
    assert move(Stub(likely, hopes=0.1), 30.0, total_arms=120.0) is Move.CERTIFY


def test_an_attempt_of_a_few_blocks_begins_at_once_however_small_the_budget() -> None:
    few, more = prediction(0.05), prediction(0.04)
    blocks = [forecast_of(each, NOISE, rules(), 1, 20).mean_blocks for each in (few, more)]
    assert 4.0 < blocks[0] <= 6.0 < blocks[1]
    position: dict[str, Any] = {"total_arms": 80.0, "measured": 24}
    # This is more than the share of the rest that an early attempt may cost, 0.15 of 50 arms.
    assert move(Stub(few, hopes=0.9), 50.0, **position) is Move.CERTIFY
    assert move(Stub(more, hopes=0.9), 50.0, **position) is Move.SEARCH


def test_an_early_attempt_takes_no_more_arms_than_were_measured_so_far() -> None:
    """What looks best after a single block seldom is: the search goes on until it has more."""
    likely = Stub(prediction(0.05), hopes=0.9)
    forecast = forecast_of(prediction(0.05), NOISE, rules(), 1, 20)
    assert forecast.power > 0.85
    arms = math.ceil(2 * forecast.mean_blocks)
    assert move(likely, 400.0, total_arms=450.0, measured=arms - 1) is Move.SEARCH
    assert move(likely, 400.0, total_arms=450.0, measured=arms) is Move.CERTIFY


def test_the_last_call() -> None:
    """The search ends when another block would leave too little for the attempt."""
    unsure = Stub(prediction(0.05, error=0.05), hopes=0.9)
    moves = [move(unsure, float(left), total_arms=120.0) for left in range(120, 5, -1)]
    assert moves[0] is Move.SEARCH
    last = moves.index(Move.CERTIFY)
    assert set(moves[:last]) == {Move.SEARCH}
    # At that point five fresh blocks of two arms still fit.
    assert 120 - last >= 10
    assert set(moves[last:-4]) == {Move.CERTIFY}


def test_with_nothing_left_to_search_the_best_candidate_is_tried() -> None:
    assert move(Stub(prediction(0.05, error=0.05)), can_search=False) is Move.CERTIFY
    assert move(Stub(None), can_search=False) is Move.FINISH


def test_when_nothing_fits_it_is_over() -> None:
    assert move(Stub(prediction(0.2)), arms_left=5.0) is Move.FINISH
    assert move(Stub(None), arms_left=9.0) is Move.FINISH
    assert move(Stub(None), arms_left=10.0) is Move.SEARCH


@pytest.mark.parametrize("share", [0.1, 0.4, 0.9])
def test_with_nothing_to_certify_the_search_leaves_only_the_shortest_attempt(share: float) -> None:
    """The alternative is to finish, so that a larger reserve would never be used."""
    limits = rules(certify_share=share)
    tight = float(1 + limits.arms + 2 * MIN_PAIRS)
    assert move(Stub(None), tight, limits=limits) is Move.SEARCH
    assert move(Stub(None), tight - 1.0, limits=limits) is Move.FINISH


def test_a_gain_not_worth_acting_on_is_not_certified() -> None:
    assert move(Stub(prediction(0.01, 0.001)), can_search=False) is Move.FINISH
    assert move(Stub(prediction(0.01, 0.001), hopes=0.0)) is Move.SEARCH


def test_after_a_certificate_only_something_better_is_certified() -> None:
    have = prediction(0.1)
    assert move(Stub(have, hopes=0.0), answers=(have,)) is Move.SEARCH
    assert move(Stub(have), answers=(have,), can_search=False) is Move.FINISH
    # With as many settings, half of delta is better; with more settings, delta.
    half = margin(rules().race.delta) / 2.0
    for changes, least in ((1, half), (2, 2.0 * half)):
        little = Stub(prediction(0.1 + 0.9 * least, name=2, changes=changes))
        more = Stub(prediction(0.1 + 1.1 * least, name=2, changes=changes))
        assert move(little, answers=(have,), can_search=False, attempt=2) is Move.FINISH
        assert move(more, answers=(have,), can_search=False, attempt=2) is Move.CERTIFY
    better = Stub(prediction(0.3, name=2), hopes=0.0)
    assert move(better, answers=(have,), attempt=2) is Move.CERTIFY
    # No budget is reserved if there is nothing to reserve it for.
    assert move(Stub(have), arms_left=4.0, answers=(have,)) is Move.SEARCH


def test_what_has_a_certificate_is_not_certified_again() -> None:
    """Neither one that looked worse than the answer when that was decided, and better since."""
    have, other = prediction(0.1), prediction(0.3, name=2)
    proven = frozenset(each.configuration for each in (have, other))
    for attempt in (2, 5):
        at: dict[str, Any] = {"answers": (have,), "attempt": attempt, "can_search": False}
        assert move(Stub(other), **at) is Move.CERTIFY
        assert move(Stub(other), **at, proven=proven) is Move.FINISH


def test_a_large_step_beyond_a_certificate_is_certified_at_once() -> None:
    have = prediction(0.1)
    position: dict[str, Any] = {"answers": (have,), "attempt": 2}
    large, error = margin(rules().race.delta), 0.003
    enough, too_little = (
        Stub(prediction(0.1 + share * large + error, error, name=2), hopes=0.9)
        for share in (1.1, 0.9)
    )
    assert move(enough, **position) is Move.CERTIFY
    assert move(too_little, **position) is Move.SEARCH
    # Early attempts do not spend the share of the error reserved for later ones.
    assert move(enough, **position | {"attempt": 3}) is Move.CERTIFY
    assert move(enough, **position | {"attempt": 4}) is Move.SEARCH


def test_after_a_certificate_fewer_settings_that_gain_as_much_are_certified() -> None:
    have = prediction(0.1, changes=3)
    simpler = Stub(prediction(0.095, name=2, changes=2), hopes=0.0)
    assert move(simpler, answers=(have,), attempt=2) is Move.CERTIFY
    as_many = Stub(prediction(0.095, name=2, changes=3), hopes=0.0)
    assert move(as_many, answers=(have,), attempt=2) is Move.SEARCH
    too_little = Stub(prediction(0.05, name=2, changes=2), hopes=0.0)
    assert move(too_little, answers=(have,), attempt=2) is Move.SEARCH


def test_the_certified_configuration_is_measured_further_when_nothing_better_can_be_certified() -> (
    None
):
    have = prediction(0.1)
    position: dict[str, Any] = {"answers": (have,), "wide": True, "attempt": 2}
    assert move(Stub(have, hopes=0.9), **position) is Move.SEARCH
    assert move(Stub(have, hopes=0.0), **position) is Move.NARROW
    # After another block of the search, too little would be left to certify what it may find.
    assert move(Stub(have, hopes=0.9), 8.0, **position) is Move.NARROW
    assert move(Stub(have, hopes=0.9), can_search=False, **position) is Move.NARROW
    assert move(Stub(prediction(0.3, 0.3, name=2)), 7.0, **position) is Move.NARROW
    assert move(Stub(have), 1.0, **position) is Move.FINISH
    assert move(Stub(have), 1.0, **position | {"wide": False}) is Move.FINISH


def test_what_a_block_would_measure_is_chosen_only_where_it_matters() -> None:
    def choose() -> bool:
        raise AssertionError("takes most of the time of a decision")

    have = prediction(0.1)
    certified = replace(position(answers=(have,), wide=True, attempt=2), can_search=choose)
    assert next_move(Stub(have, hopes=0.0), have, rules(), certified) is Move.NARROW
    likely, first = prediction(0.2), replace(position(), can_search=choose)
    assert next_move(Stub(likely, hopes=0.9), likely, rules(), first) is Move.CERTIFY


def test_several_testbeds_and_finalists_cost_as_many_arms() -> None:
    view = Stub(prediction(0.2), hopes=0.9)
    assert move(view, arms_left=6.0) is Move.CERTIFY
    assert move(view, arms_left=6.0, limits=rules(testbeds=2)) is Move.FINISH
    assert move(view, arms_left=6.0, limits=rules(finalists=2), searched=False) is Move.FINISH


def test_testbeds_measure_the_fresh_blocks_of_an_attempt_together() -> None:
    """As many arms give as many fresh blocks on four testbeds as on one."""
    likely = Stub(prediction(0.05), hopes=0.0)
    costs = 2 * forecast_of(prediction(0.05), NOISE, rules(), 1, 20).mean_blocks
    left = 4.0 * math.ceil(costs)
    assert move(likely, left) is Move.CERTIFY
    assert move(likely, left, limits=rules(testbeds=4)) is Move.CERTIFY


@pytest.mark.parametrize(("testbeds", "arms"), [(1, 6.0), (2, 8.0), (3, 6.0), (4, 8.0)])
def test_the_search_leaves_an_attempt_on_every_testbed(testbeds: int, arms: float) -> None:
    """The shortest attempt takes three blocks, and whole batches of them."""
    limits = rules(testbeds=testbeds)
    first = testbeds * (1 + limits.arms)
    assert move(Stub(None), first + arms, limits=limits) is Move.SEARCH
    assert move(Stub(None), first + arms - 1.0, limits=limits) is Move.FINISH
    gain = Stub(prediction(0.3), hopes=0.9)
    assert move(gain, arms, limits=limits) is Move.CERTIFY


def test_a_broken_floor_makes_an_attempt_hopeless() -> None:
    noise = Noise(0.02, (0.02, 0.02))
    fine, breaking = prediction(0.2), prediction(0.2, loss=0.3)
    assert forecast_of(fine, noise, rules(), 1, 20).power > 0.9
    assert forecast_of(breaking, noise, rules(), 1, 20).power < 0.05
    assert move(Stub(breaking, hopes=0.0)) is Move.SEARCH


def test_floors_with_a_laxer_error_are_shown_sooner() -> None:
    noise = Noise(0.03, (0.03, 0.06))
    near = prediction(0.2, loss=0.001)
    strict = forecast_of(near, noise, rules(floors=Floors.STRICT), 1, 10)
    bounded = forecast_of(near, noise, rules(floors=Floors.BOUNDED), 1, 10)
    assert bounded.power > strict.power + 0.1
    assert bounded.mean_blocks < strict.mean_blocks


def test_later_attempts_and_fewer_blocks_have_less_power() -> None:
    noise = Noise(0.05, (0.05, 0.05))
    of = [forecast_of(prediction(0.06, 0.01), noise, rules(), k, 20).power for k in (1, 2, 3)]
    assert of == sorted(of, reverse=True)
    by = [forecast_of(prediction(0.06, 0.01), noise, rules(), 1, n).power for n in (4, 8, 16, 20)]
    assert by == sorted(by)
    assert forecast_of(prediction(0.06), noise, rules(), 1, 2).power == 0.0


@pytest.mark.slow
@pytest.mark.parametrize("gain", [0.03, 0.06])
def test_the_forecast_matches_the_share_of_certificates(gain: float) -> None:
    """200 attempts with a known gain and one component: the share that is certified is within three
    standard errors (0.035 at most).
    """
    limits = replace(rules(certify_blocks=12), floors=Floors.BOUNDED)
    sd = 0.04
    single = Prediction(Configuration(), gain, 0.0, 1.0, ((-gain, 0.0),))
    expected = forecast_of(single, Noise(sd, (0.0,)), limits, 1, 12)
    rng = np.random.default_rng(5)
    certified = 0
    for _ in range(200):
        differences = -gain + sd * rng.standard_normal(12)
        blocks = [PairedTimes((math.exp(d),), (1.0,)) for d in differences]
        certified += any(
            certify(
                blocks[:n], (1.0,), floor=0.5, alpha=alpha_of(1), max_n=12, floor_alpha=FLOOR_ALPHA
            ).outcome
            is CertificateOutcome.CERTIFIED
            for n in range(3, 13)
        )
    assert certified / 200 == pytest.approx(expected.power, abs=0.105)


def test_fewer_settings_are_certified_in_the_second_half_of_the_budget() -> None:
    """Not only at the end, when a single look would decide which settings these are."""
    many, few = prediction(0.2, changes=5), prediction(0.2, name=2, changes=3)
    position: dict[str, Any] = {"answers": (many,), "attempt": 2, "total_arms": 400.0}
    assert move(Stub(few, hopes=0.9), 250.0, **position) is Move.SEARCH
    assert move(Stub(few, hopes=0.9), 190.0, **position) is Move.CERTIFY
    assert move(Stub(replace(few, changes=5), hopes=0.9), 190.0, **position) is Move.SEARCH
    assert move(Stub(few, hopes=0.9), 190.0, **position | {"attempt": 6}) is Move.CERTIFY
    # Late attempts have too small a share of the error to be early.
    assert move(Stub(few, hopes=0.9), 190.0, **position | {"attempt": 7}) is Move.SEARCH


def test_fewer_settings_are_not_certified_if_they_lose_too_much_against_an_earlier_answer() -> None:
    """It could not become the answer, although it loses little against the last one."""
    first, last = prediction(0.2, changes=5), prediction(0.185, name=2, changes=3)
    few = prediction(0.165, error=0.001, name=3, changes=1)
    view = Stub(few, hopes=0.0)
    position: dict[str, Any] = {"attempt": 3, "total_arms": 400.0}
    assert move(view, 190.0, answers=(last,), **position) is Move.CERTIFY
    assert move(view, 190.0, answers=(first, last), **position) is Move.SEARCH
    assert view.compared[-1] == first.configuration


def test_settings_are_left_out_of_the_candidate_last() -> None:
    """Once a gain is certified and half of the budget is used."""
    every, few = prediction(0.2, changes=9), prediction(0.19, name=2, changes=3)
    view = Stub(every, simpler=few)
    at: dict[str, Any] = {"attempt": 2, "total_arms": 400.0, "measured": 10}
    assert candidate(view, rules(), position(arms_left=390.0, **at)) is every
    assert candidate(view, rules(), position(arms_left=10.0, **at)) is every
    assert candidate(view, rules(), position(arms_left=201.0, answers=(every,), **at)) is every
    assert candidate(view, rules(), position(arms_left=200.0, answers=(every,), **at)) is few


def test_where_nothing_may_be_added_the_candidate_is_a_trial_of_the_campaign() -> None:
    dream, have = prediction(0.4, name=9), prediction(0.2, name=1)
    little, more = prediction(0.1, name=2), prediction(0.3, name=3)

    def chose(*trials: Prediction, answers: tuple[Prediction, ...] = ()) -> Prediction | None:
        at = position(may_add=False, own_trials=lambda: trials, answers=answers)
        return candidate(Stub(dream), rules(), at)

    assert chose() is None
    assert chose(prediction(-0.1)) is None
    assert chose(little, have) is have
    # A certified one is the candidate only if no other would be news.
    assert chose(little, have, answers=(have,)) is have
    assert chose(little, have, more, answers=(more,)) is more
    simpler = replace(prediction(0.195, name=4), changes=0)
    assert chose(little, have, simpler, answers=(have,)) is simpler
    assert move(Stub(dream), may_add=False, own_trials=lambda: (have,)) is Move.CERTIFY
    again: dict[str, Any] = {"may_add": False, "own_trials": lambda: (have,), "attempt": 2}
    assert move(Stub(dream, 0.0), answers=(have,), wide=True, **again) is Move.NARROW


def test_several_finalists_share_the_error_of_an_attempt() -> None:
    best = prediction(0.03)
    one, three = (rules(certify_blocks=20, finalists=n) for n in (1, 3))
    alone, shared = (forecast_of(best, NOISE, limits, 1, 20) for limits in (one, three))
    assert shared.power < alone.power
    assert shared.mean_blocks > alone.mean_blocks
    here = position(suspect=True)
    assert here.fewest(three) > here.fewest(one)


def test_where_the_sign_flip_test_is_needed_an_attempt_has_the_blocks_for_it() -> None:
    """With the error of a third attempt it needs ten differences of the same sign; the t-type test
    may need only three.
    """
    best = prediction(0.2)
    limits = rules(certify_blocks=20)
    plain, suspect = (position(attempt=3, suspect=flag) for flag in (False, True))
    assert (plain.fewest(limits), suspect.fewest(limits)) == (3, 10)
    quick = forecast_of(best, NOISE, limits, 3, 20, plain.fewest(limits))
    slow = forecast_of(best, NOISE, limits, 3, 20, suspect.fewest(limits))
    assert quick.power == slow.power
    assert quick.mean_blocks < 6 < 10 <= slow.mean_blocks
    assert forecast_of(best, NOISE, limits, 3, 9, suspect.fewest(limits)).power == 0.0
    # So an attempt begins while ten blocks still fit.
    later: dict[str, Any] = {
        "attempt": 3,
        "total_arms": 120.0,
        "answers": (prediction(0.185, name=2),),
        "limits": limits,
    }
    lefts = range(100, 0, -1)
    starts = {
        flag: next(
            n for n in lefts if move(Stub(best, 0.9), n, suspect=flag, **later) is not Move.SEARCH
        )
        for flag in (False, True)
    }
    assert starts[True] >= 20 > starts[False]


def test_after_a_failed_attempt_the_search_learns_more_before_the_next() -> None:
    """However certain it is of the next one, and though nothing better is in prospect."""
    certain = Stub(prediction(0.10), hopes=0.0)
    assert move(certain, attempt=2) is Move.CERTIFY
    assert move(certain, attempt=2, refuted=True) is Move.SEARCH
    assert move(certain, attempt=2, refuted=True, can_search=False) is Move.CERTIFY
    tight = 2.0 * 5 + rules().arms  # not enough for a block of the search and five fresh ones
    assert move(certain, tight, attempt=2, refuted=True) is Move.CERTIFY


@pytest.mark.parametrize(
    ("testbeds", "arms_left", "number"),
    [
        (1, math.inf, 5),
        (1, 18.0, 5),  # three blocks
        (1, 17.9, 2),  # five blocks
        (1, 14.9, 1),
        (1, 3.0, 1),
        (2, 24.0, 5),
        (2, 23.9, 2),
    ],
)
def test_an_attempt_has_fewer_finalists_where_the_budget_has_no_room_for_all(
    testbeds: int, arms_left: float, number: int
) -> None:
    limits, here = rules(finalists=5, testbeds=testbeds), position(arms_left=arms_left)
    assert attempt_rules(limits, here).finalists == number
    best, *others = (prediction(0.2, name=name) for name in range(9))
    assert len(finalists(best, others, limits, here)) == number
    assert attempt_rules(limits, replace(here, searched=False)) == limits


def test_with_several_finalists_the_search_leaves_no_more_than_with_one() -> None:
    several = rules(finalists=5)
    for limits in (rules(), several):
        assert move(Stub(None), 10.0, limits=limits) is Move.SEARCH
        assert move(Stub(None), 9.9, limits=limits) is Move.FINISH
    assert move(Stub(prediction(0.2)), 8.0, limits=several) is Move.CERTIFY
    # The first block of the search needs room for all finalists.
    assert move(Stub(None), 22.0, limits=several, searched=False) is Move.SEARCH
    assert move(Stub(None), 21.9, limits=several, searched=False) is Move.FINISH
    assert move(Stub(prediction(0.2)), 17.9, limits=several, searched=False) is Move.FINISH
