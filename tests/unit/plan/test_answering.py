"""Which certified finalist is the answer, and when that is decided."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.plan.histories import COMPONENTS, History, planner, rules
from tuner.judge.certify import PairedTimes, certify_several
from tuner.model import Configuration
from tuner.plan.answering import Look, answers_so_far, look_blocks
from tuner.plan.certifying import Certification
from tuner.plan.scores import block_times
from tuner.propose.prediction import Prediction

#: By trial: the expected gain and the number of settings.
Expected = Mapping[int, tuple[float, int]]


def attempt(gain: float, finalist: int, blocks: int = 12) -> Certification:
    """Return the state of an attempt whose finalist has this gain in every block, plus noise."""
    rng = random.Random(finalist)
    return attempt_of({finalist: [math.exp(-gain + rng.gauss(0.0, 0.02)) for _ in range(blocks)]})


def attempt_of(times: dict[int, list[float]]) -> Certification:
    """Return the state of an attempt with these times of its finalists, relative to the
    baseline's.
    """
    pairs = {f: [PairedTimes((each,), (1.0,)) for each in of] for f, of in times.items()}
    certificates = certify_several(pairs, (1.0,), floor=0.3, alpha=0.01, max_n=12)
    return Certification(certificates, (), ())


def look(expected: Expected) -> Look:
    """Return a look at which this was expected of the finalists certified by then."""

    def prediction(trial: int) -> Prediction:
        gain, changes = expected[trial]
        return Prediction(Configuration.of({}), gain, 0.01, 1.0, (), changes)

    return Look(expected, prediction)


def answer(attempts: Sequence[Certification], *expected: Expected) -> int | None:
    """Return the answer, given what was expected at each look."""
    answers = answers_so_far(attempts, [look(each) for each in expected], 0.02)
    return answers[-1].finalist if answers else None


def test_a_later_certificate_is_the_answer_unless_an_earlier_one_gains_more_for_certain() -> None:
    gains = {1: 0.2, 2: 0.3, 3: 0.195, 4: 0.1, 5: 0.0}
    expected = {trial: (gain, 4 - trial) for trial, gain in gains.items()}
    first, more, as_much, less, nothing = (attempt(gain, trial) for trial, gain in gains.items())
    cases = [
        ([], None),
        ([nothing], None),
        ([first, nothing], 1),
        ([first, more], 2),
        ([first, as_much], 3),
        ([first, less], 1),
        ([first, more, first], 2),
    ]
    for attempts, finalist in cases:
        assert answer(attempts, expected) == finalist


def test_every_certified_finalist_of_an_attempt_may_be_the_answer() -> None:
    """The one with the largest proven gain may be an answer already, or less simple."""
    rng = random.Random(1)
    steady, noisy = (
        [math.exp(-0.2 + rng.gauss(0.0, sd)) for _ in range(12)] for sd in (0.01, 0.03)
    )
    expected = {1: (0.2, 4), 2: (0.205, 2), 3: (0.1, 1)}
    both = attempt_of({1: steady, 2: noisy})
    assert both.certified == (1, 2)
    assert answer([both], expected) == 2
    assert answer([attempt_of({1: steady}), both], expected) == 2
    assert answer([both], expected | {2: (0.205, 5)}) == 1
    assert answer([both, attempt(0.1, 3)], expected) == 2


@pytest.mark.parametrize(
    ("gain", "changes", "finalist"),
    [
        # With as many settings it must be better by half of delta, with more by delta, with fewer
        # not worse by delta.
        (0.211, 2, 2),
        (0.209, 2, 1),
        (0.215, 3, 1),
        (0.225, 3, 2),
        (0.185, 1, 2),
        (0.175, 1, 1),
    ],
)
def test_a_later_certificate_is_the_answer_when_all_measurements_still_say_so(
    gain: float, changes: int, finalist: int
) -> None:
    attempts = [attempt(0.2, 1), attempt(0.2, 2)]
    assert answer(attempts, {1: (0.2, 2), 2: (gain, changes)}) == finalist


def test_steps_to_fewer_settings_do_not_add_up_to_a_loss_of_more_than_delta() -> None:
    attempts = [attempt(0.2, trial) for trial in (1, 2, 3)]
    assert answer(attempts, {1: (0.2, 3), 2: (0.185, 2), 3: (0.17, 1)}) == 2
    assert answer(attempts, {1: (0.2, 3), 2: (0.185, 2), 3: (0.183, 1)}) == 3


@pytest.mark.parametrize("changes", [1, 2, 3])
def test_certificates_that_gain_about_the_same_do_not_take_turns(changes: int) -> None:
    """Every block changes the estimates a little, in either direction."""
    attempts = [attempt(0.2, 1), attempt(0.2, 2)]
    gains = (0.197, 0.204, 0.199, 0.206, 0.194)
    answers = {answer(attempts, {1: (0.2, 2), 2: (gain, changes)}) for gain in gains}
    assert answers == ({2} if changes < 2 else {1})


def test_what_has_replaced_an_answer_keeps_an_advantage() -> None:
    """With fewer settings it stays while it is not worse by twice delta, otherwise while it is no
    worse; delta is .0198 in log units.
    """
    attempts = [attempt(0.2, 1), attempt(0.2, 2)]
    cases = [
        # settings, expected gains at each look, answer at each look
        (1, (0.185, 0.165, 0.161, 0.158, 0.165, 0.185), (2, 2, 2, 1, 1, 2)),
        (1, (0.175, 0.179, 0.181, 0.165), (1, 1, 2, 2)),
        (2, (0.211, 0.201, 0.199, 0.201), (2, 2, 1, 1)),
        (3, (0.225, 0.201, 0.199, 0.215), (2, 2, 1, 1)),
    ]
    for changes, gains, finalists in cases:
        looks = [{1: (0.2, 2), 2: (gain, changes)} for gain in gains]
        now = tuple(answer(attempts, *looks[: n + 1]) for n in range(len(looks)))
        assert now == finalists


def test_what_is_certified_after_a_look_is_no_answer_there() -> None:
    attempts = [attempt(0.2, 1), attempt(0.3, 2)]
    assert answer(attempts, {1: (0.2, 2)}) == 1
    assert answer(attempts, {1: (0.2, 2)}, {1: (0.2, 2), 2: (0.3, 2)}) == 2
    assert answer(attempts) is None


@given(st.sets(st.integers(1, 300), max_size=5), st.integers(0, 400), st.integers(0, 400))
def test_looks_follow_certificates_and_growth_and_later_blocks_change_none(
    certified_at: set[int], one: int, other: int
) -> None:
    now, later = sorted((one, other))
    looks = look_blocks(certified_at, later)
    assert [n for n in looks if n <= now] == look_blocks({n for n in certified_at if n <= now}, now)
    assert {n for n in certified_at if n <= later} <= set(looks)
    assert looks == sorted(set(looks))
    for before, after in pairwise([*looks, later + 1]):
        assert after <= math.ceil(1.25 * before)
        assert after == math.ceil(1.25 * before) or after in certified_at or after == later + 1


@pytest.mark.slow
def test_a_planner_made_anew_gives_the_same_answers_at_every_block() -> None:
    """The looks since the first certificate are repeated, from what was measured by then."""
    history = History(rules(), {1: 0.9, 5: 0.7}, noise=0.03)
    history.run()
    several = [n for n, plan in enumerate(history.plans) if len(plan.answers) > 1]
    assert several
    for blocks in several:
        rows = [block_times(block, COMPONENTS) for block in history.blocks[:blocks]]
        again = planner(history.rules).plan(history.trials, rows)
        assert again.answers == history.plans[blocks].answers
