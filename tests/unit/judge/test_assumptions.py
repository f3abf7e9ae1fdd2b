"""Guards: quiet if nothing is wrong, loud if something is, and their reasons."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import scipy
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from tuner.judge.assumptions import (
    Alarm,
    Guard,
    GuardKind,
    baseline_dependence,
    baseline_drift,
    dependence,
    disagreement,
    skewness,
    trend,
    watch,
)
from tuner.judge.evalue import Floats, e_value
from tuner.judge.robust import sign_flip_e_value

POOLED = (skewness, dependence, trend)


def autocorrelated(rng: np.random.Generator, shape: tuple[int, int], r: float) -> Floats:
    x = rng.standard_normal(shape)
    for i in range(1, shape[1]):
        x[:, i] = r * x[:, i - 1] + math.sqrt(1.0 - r * r) * x[:, i]
    return x


def alarms(guard: Callable[[Floats], Guard], draw: Callable[[np.random.Generator], Floats]) -> int:
    """Return how many of 200 campaigns alarm the guard."""
    rng = np.random.default_rng(9)
    return sum(guard(draw(rng)).alarm is not Alarm.NONE for _ in range(200))


@pytest.mark.parametrize(("guard", "most"), [(skewness, 8), (dependence, 33), (trend, 8)])
@pytest.mark.parametrize("shared", [0.0, 1.0])
def test_sound_differences_alarm_seldom(
    guard: Callable[[Floats], Guard], most: int, shared: float
) -> None:
    """At 1, 10 and 1%: 2, 20 and 2 of 200 are expected; the bounds are three deviations above."""
    count = alarms(
        guard,
        lambda rng: rng.standard_normal((4, 20)) + shared * rng.standard_normal((1, 20)),
    )
    assert count <= most


def test_lopsided_differences_are_noticed() -> None:
    assert alarms(skewness, lambda rng: rng.exponential(size=(4, 20))) > 190
    assert alarms(skewness, lambda rng: np.exp(rng.standard_normal((3, 20)))) > 190


@pytest.mark.slow
def test_dependent_differences_are_noticed() -> None:
    assert alarms(dependence, lambda rng: autocorrelated(rng, (4, 30), 0.3)) > 170
    assert alarms(dependence, lambda rng: autocorrelated(rng, (4, 30), 0.5)) > 195
    assert alarms(dependence, lambda rng: autocorrelated(rng, (4, 30), -0.5)) == 0


def differences(arms: Floats) -> Floats:
    """Return the differences of all other arms from the first; arms: (arms, blocks)."""
    result: Floats = arms[1:] - arms[0]
    return result


@pytest.mark.parametrize(
    ("dependent", "least"), [(slice(None), 158), (slice(1, None), 178), (slice(1), 35)]
)
def test_dependence_of_all_arms_or_some_is_noticed(dependent: slice, least: int) -> None:
    """All arms at .3 (87% expected), the candidates (95%) or the reference (27%) alone at .5."""
    rho = 0.3 if dependent == slice(None) else 0.5

    def draw(rng: np.random.Generator) -> Floats:
        arms = rng.standard_normal((5, 20))
        arms[dependent] = autocorrelated(rng, arms[dependent].shape, rho)
        return differences(arms)

    assert alarms(dependence, draw) > least


def on_testbeds(count: int, rho: float, level: float = 0.0) -> list[Guard]:
    """Return the dependence guard of 100 campaigns of 5 arms, 20 blocks in turn on the testbeds.

    All arms are autocorrelated by rho on each testbed apart. level: by how much more than on the
    testbed before the candidates differ from the reference.
    """
    rng = np.random.default_rng(12)
    testbed = np.arange(20) % count
    none = np.zeros(4, dtype=np.bool_)
    guards = []
    for _ in range(100):
        arms = np.empty((5, 20))
        for place in range(count):
            shape = (5, int((testbed == place).sum()))
            arms[:, testbed == place] = autocorrelated(rng, shape, rho)
        arms[1:] += level * testbed
        guards.append(watch(differences(arms), arms[0], twins=none, testbed=testbed)[1])
    return guards


@pytest.mark.slow
@pytest.mark.parametrize(("count", "least"), [(1, 94), (2, 90), (4, 64)])
def test_dependence_within_a_testbed_is_noticed_on_several(count: int, least: int) -> None:
    """At .6; the bounds are three deviations below 99, 96 and 77 refusals of 100."""
    refusals = [guard for guard in on_testbeds(count, 0.6) if guard.alarm is Alarm.REFUSE]
    assert len(refusals) >= least


@pytest.mark.slow
@pytest.mark.parametrize("level", [0.0, 3.0])
def test_testbeds_that_differ_are_no_dependence(level: float) -> None:
    """At 10%: 10 of 100 are expected; the bound is three deviations above."""
    assert sum(guard.alarm is not Alarm.NONE for guard in on_testbeds(2, 0.0, level)) <= 19


def test_a_single_testbed_changes_no_guard_and_several_only_dependence() -> None:
    rng = np.random.default_rng(1)
    x, baseline, none = rng.standard_normal((3, 20)), rng.standard_normal(20), np.zeros(3, bool)
    plain = watch(x, baseline, twins=none)
    assert watch(x, baseline, twins=none, testbed=np.zeros(20, np.int64)) == plain
    several = watch(x, baseline, twins=none, testbed=np.arange(20) % 2)
    changed = {one.kind for one, other in zip(plain, several, strict=True) if one != other}
    assert changed == {GuardKind.DEPENDENCE, GuardKind.BASELINE_DEPENDENCE}
    # The blocks of a testbed follow each other, whichever testbed was first.
    in_turn = np.argsort(np.arange(20) % 2, kind="stable")
    sides = np.repeat([0, 1], 10)
    assert dependence(x[:, in_turn], sides) == several[1]
    assert baseline_dependence(baseline[in_turn], sides) == several[3]


@pytest.mark.slow
def test_levels_of_arms_and_blocks_are_no_dependence() -> None:
    """Races of very different candidates, some dropped early, with drift: 20 of 200 expected."""
    ends = (10, 3, 6, 8)

    def draw(rng: np.random.Generator) -> Floats:
        table = np.full((2 * len(ends), 20), math.nan)
        for race in (0, 1):
            arms = rng.standard_normal((5, 10)) + np.linspace(0.0, 30.0, 10)
            d = differences(arms) + 20.0 * rng.standard_normal((4, 1))
            for row, end in enumerate(ends):
                table[4 * race + row, 10 * race : 10 * race + end] = d[row, :end]
        return table

    assert alarms(dependence, draw) <= 33


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shape", "skewed", "dependent"),
    [((1, 6), 2.576, 2.326), ((1, 20), 1.645, 2.326), ((40, 30), 2.576, 2.326)],
    ids=["too few to tell", "few to tell skewness", "many"],
)
def test_the_limit_is_loose_for_few_measurements_and_strict_for_others(
    shape: tuple[int, int], skewed: float, dependent: float
) -> None:
    rng = np.random.default_rng(4)
    loud = quiet = 0
    for _ in range(300):
        x = rng.standard_normal(shape)
        for guard, limit in ((skewness(x), skewed), (dependence(x), dependent)):
            z = abs(guard.z) if guard.kind is GuardKind.SKEWNESS else guard.z
            assert (guard.alarm is not Alarm.NONE) == (z >= limit)
            loud, quiet = loud + (z >= limit), quiet + (z < limit)
    assert min(loud, quiet) > 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("series", "least", "most"), [(4, 1.282, 1.6), (8, 1.5, 2.2)], ids=["loose", "between"]
)
def test_both_mistakes_about_an_autocorrelation_of_three_tenths_are_equally_likely(
    series: int, least: float, most: float
) -> None:
    """The limit is .15 in units of the estimate's standard error, and not below 1.282."""
    rng = np.random.default_rng(4)
    guards = [dependence(rng.standard_normal((series, 20))) for _ in range(300)]
    assert least <= min(one.z for one in guards if one.alarm is not Alarm.NONE) < most
    assert max(one.z for one in guards if one.alarm is Alarm.NONE) < most


def test_an_outlier_counts_less_than_a_tail() -> None:
    """A heavy tail is detected, the same skewness from a single value is not."""
    rng = np.random.default_rng(4)
    tail, wild = rng.exponential(size=(4, 20)), rng.standard_normal((4, 20))
    wild[0, 0] = 5.0
    assert scipy.stats.skew(wild, axis=None) > 0.6
    assert skewness(tail).alarm is Alarm.WARN
    assert skewness(wild).alarm is Alarm.NONE


def test_growing_differences_are_noticed() -> None:
    steps = np.linspace(0.0, 2.0, 20)
    assert alarms(trend, lambda rng: steps + rng.standard_normal((3, 20))) > 175


def test_statistics_of_one_series() -> None:
    x = np.random.default_rng(3).exponential(size=25)
    assert skewness(x).value == pytest.approx(
        float(scipy.stats.lmoment(x, order=3, standardize=True))
    )
    d = x - x.mean()
    lag_one = float((d[1:] * d[:-1]).sum() / (d**2).sum())
    moran = 23**2 / (25**2 * 24)  # Moran's variance (1948), n = 25; n + 1 times it is the slope
    assert dependence(x).value == pytest.approx((lag_one + 1 / 25) / (26 * moran))
    line = scipy.stats.linregress(np.arange(25), x)
    assert trend(x).value == pytest.approx(24 * line.slope)
    assert trend(x).z == pytest.approx(line.rvalue * math.sqrt(24))
    assert (skewness(x).n, dependence(x).n) == (25, 25)


series = arrays.arrays(
    np.float64,
    st.tuples(st.integers(1, 4), st.integers(5, 12)),
    elements=st.integers(-50, 50).map(lambda v: v / 1000),
)


@pytest.mark.slow
@given(series, st.floats(1e-3, 1e3), st.floats(-5.0, 5.0))
def test_unit_and_level_do_not_matter(x: Floats, factor: float, level: float) -> None:
    for guard in POOLED:
        plain, moved = guard(x), guard(x * factor + level)
        assert moved.n == plain.n
        assert moved.z == pytest.approx(plain.z, abs=1e-4)


@pytest.mark.slow
@given(series, st.data())
def test_order_of_series_does_not_matter(x: Floats, data: st.DataObject) -> None:
    order = data.draw(st.permutations(range(len(x))))
    for guard in POOLED:
        assert guard(x[order]).z == pytest.approx(guard(x).z, abs=1e-9)


@pytest.mark.slow
@given(series)
def test_mirrored_differences_mirror_the_statistics(x: Floats) -> None:
    assert skewness(-x).z == pytest.approx(-skewness(x).z, abs=1e-9)
    assert trend(-x).z == pytest.approx(-trend(x).z, abs=1e-9)
    assert dependence(-x).z == pytest.approx(dependence(x).z, abs=1e-9)
    assert trend(x[:, ::-1]).z == pytest.approx(-trend(x).z, abs=1e-9)


def test_short_and_constant_series_are_left_out() -> None:
    x = np.random.default_rng(1).standard_normal((1, 12))
    short = np.full((1, 12), math.nan)
    short[0, :4] = (1.0, -1.0, 5.0, 2.0)
    padded = np.concatenate([x, short, np.full((1, 12), 0.3)])
    for guard in (skewness, trend):
        assert guard(padded) == guard(x)
    assert dependence(padded) == dependence(padded[:2])
    assert dependence(padded).n == 16
    for guard in POOLED:
        assert guard(short).n == 0
        assert guard(short).reason.startswith("too few blocks")
        assert guard(np.empty((0, 5))).alarm is Alarm.NONE


def test_missing_blocks_do_not_shift_the_others() -> None:
    """Values with alternating signs lose neighbours, not positions."""
    x = np.tile([1.0, -1.0], 10) + np.random.default_rng(1).normal(0.0, 0.01, 20)
    holes = x.copy()
    holes[[4, 11]] = math.nan
    assert dependence(x).value < -0.8
    assert dependence(holes).value < -0.8
    assert trend(holes).value == pytest.approx(trend(x).value, abs=0.2)


def test_reasons() -> None:
    rng = np.random.default_rng(2)
    right = skewness(rng.exponential(size=(3, 30)))
    assert right.reason.startswith("the differences are skewed to the slower side: faster is shown")
    assert skewness(-rng.exponential(size=(3, 30))).reason.startswith(
        "the differences are skewed to the faster side: slower is shown"
    )
    strong = dependence(autocorrelated(rng, (3, 40), 0.7))
    assert strong.alarm is Alarm.REFUSE
    assert strong.reason.startswith(
        "the differences depend on those of the block before: the evidence is far overstated"
    )
    growing = trend(np.linspace(0.0, 0.1, 20) + rng.normal(0.0, 0.01, (2, 20)))
    assert "from first to last block" in growing.reason
    assert "% slower" in growing.reason


def test_the_baseline_may_drift_and_depend() -> None:
    scores = np.linspace(3.0, 3.2, 20) + np.random.default_rng(1).normal(0.0, 0.005, 20)
    drift, after = baseline_drift(scores), baseline_dependence(scores)
    assert drift.value == pytest.approx(0.2, abs=0.02)
    assert drift.reason.startswith("the baseline became 2")
    assert after.value > 0.5
    assert {drift.alarm, after.alarm} == {Alarm.NONE}
    calm = np.random.default_rng(3).normal(3.0, 0.01, 20)
    reason = baseline_drift(calm).reason
    assert reason.startswith("no drift of the baseline is shown (")
    assert reason.endswith(" over 20 blocks, within the noise)")
    assert "do not depend" in baseline_dependence(calm).reason


def test_tests_that_agree() -> None:
    x = np.random.default_rng(1).normal(-0.1, 0.02, 12)
    guard = disagreement(x, threshold=16.37)
    assert (guard.kind, guard.alarm, guard.n) == (GuardKind.DISAGREEMENT, Alarm.NONE, 12)
    assert guard.value == sign_flip_e_value(-x)
    assert disagreement(x * 0.0, threshold=16.37).alarm is Alarm.NONE
    assert disagreement([0.1, 0.1], threshold=16.37).n == 0


def test_a_claim_that_only_the_t_type_test_makes() -> None:
    """A small steady gain followed by mixed values: the bet loses what it had won."""
    x = np.array([-0.02, -0.08, -0.01, -0.09, 0.03, -0.10, 0.02, -0.09, 0.03, -0.10, 0.02, -0.08])
    e = e_value(-x)
    guard = disagreement(x, threshold=e * 0.99)
    assert sign_flip_e_value(-x) < 10.0
    assert guard.alarm is Alarm.WARN
    assert guard.reason.startswith("the t-type test shows faster, the sign-flip test does not")


def test_a_difference_that_an_outlier_hides() -> None:
    x = np.array([0.01] * 11 + [0.6])
    guard = disagreement(x, threshold=16.37)
    assert e_value(x) < 16.37
    assert guard.alarm is Alarm.WARN
    assert guard.reason.startswith("the sign-flip test shows slower, the t-type test does not")


@pytest.mark.slow
def test_disagreement_catches_lopsided_claims_and_spares_sound_ones() -> None:
    """The share of claims made within 30 blocks that the guard warns of at the end."""
    rng = np.random.default_rng(6)

    def share_warned(x: Floats) -> float:
        claims = [row for row in x if any(e_value(row[:n]) >= 16.37 for n in range(3, 31))]
        passes = [
            sign_flip_e_value(row) >= 10.0
            and disagreement(row, threshold=16.37).alarm is Alarm.NONE
            for row in claims
        ]
        assert len(claims) > 30
        return 1.0 - sum(passes) / len(passes)

    assert share_warned(1.0 - rng.exponential(size=(300, 30))) > 0.7
    assert share_warned(1.0 + rng.standard_normal((60, 30))) < 0.1


def test_watch_has_each_guard_once() -> None:
    rng = np.random.default_rng(1)
    none = np.zeros(3, dtype=np.bool_)
    guards = watch(rng.standard_normal((3, 12)), rng.standard_normal(12), twins=none)
    assert [g.kind for g in guards] == [k for k in GuardKind if k is not GuardKind.DISAGREEMENT]
    assert all(g.reason for g in guards)


def test_twins_do_not_count_for_skewness() -> None:
    rng = np.random.default_rng(1)
    x = rng.exponential(size=(3, 20))
    guards = watch(x, rng.standard_normal(20), twins=np.array([True, False, False]))
    assert guards[0] == skewness(x[1:])
    assert guards[1] == dependence(x)


def test_bad_arguments() -> None:
    with pytest.raises(ValueError, match="series, blocks"):
        skewness(np.zeros((2, 2, 2)))
    with pytest.raises(ValueError, match="finite"):
        trend([0.1, math.inf])
    with pytest.raises(ValueError, match="index 1"):
        disagreement([0.1, math.nan, 0.1], threshold=10.0)
