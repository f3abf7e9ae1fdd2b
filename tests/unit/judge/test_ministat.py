"""The classic arithmetic against every published result, its table, and its two editions."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.judge.published import Arm, Result, results
from tuner.judge.holm import holm
from tuner.judge.ministat import (
    CONFIDENCES,
    Edition,
    Summary,
    difference,
    pooled_p_value,
    student_t,
    summarise,
)

RESULTS = results()
samples = st.lists(st.integers(1, 1000).map(float), min_size=3, max_size=12)


def name(result: Result) -> str:
    return f"{result.other.label} against {result.reference.label}"


def summary(arm: Arm) -> Summary:
    """Return the summary of the values if available, otherwise the published one."""
    return arm.row if arm.values is None else summarise(arm.values)


def test_there_are_21_published_results_and_most_have_values() -> None:
    with_values = [
        r for r in RESULTS if r.reference.values is not None and r.other.values is not None
    ]
    assert (len(RESULTS), len(with_values)) == (21, 14)


@pytest.mark.parametrize("result", RESULTS, ids=name)
def test_published_rows(result: Result) -> None:
    for arm in (result.reference, result.other):
        actual = summary(arm)
        for value, printed in zip(
            (actual.n, actual.minimum, actual.maximum, actual.median, actual.mean, actual.sd),
            (arm.row.n, arm.row.minimum, arm.row.maximum, arm.row.median, arm.row.mean, arm.row.sd),
            strict=True,
        ):
            assert f"{value:.8g}" == f"{printed:.8g}"


@pytest.mark.parametrize("result", RESULTS, ids=name)
def test_published_results(result: Result) -> None:
    """To the last printed digit."""
    comparison = difference(summary(result.reference), summary(result.other), confidence=95.0)
    assert comparison.proven == (result.printed is not None)
    if result.printed is not None:
        figures = (
            comparison.difference,
            comparison.interval,
            comparison.percent,
            comparison.percent_interval,
            comparison.pooled_sd,
        )
        assert tuple(f"{figure:g}" for figure in figures) == result.printed


def test_three_published_differences_do_not_survive_holm() -> None:
    adjusted = holm([pooled_p_value(summary(r.reference), summary(r.other)) for r in RESULTS])
    pairs = zip(RESULTS, adjusted, strict=True)
    lost = [r.other.label for r, p in pairs if r.printed is not None and p > 0.05]
    assert lost == [
        "ni.squeeze+afsonzfs+-jumbo.times",
        "ni.squeeze+afsonzfs+rec-opts.times",
        "ni.freebsd+afsonzfs+-jumbo.ooo.extract",
    ]


@pytest.mark.parametrize(
    ("confidence", "quantile"),
    [(80.0, 0.9), (90.0, 0.95), (95.0, 0.975), (98.0, 0.99), (99.0, 0.995), (99.5, 0.999)],
)
def test_t_table(confidence: float, quantile: float) -> None:
    """Three decimals of the quantile; the misprints of the last column are off by up to .004."""
    for freedom in (1, 2, 7, 10, 13, 30, 60, 100):
        exact = float(scipy.stats.t.ppf(quantile, freedom))
        off = 0.0042 if confidence == 99.5 else 0.0005
        assert student_t(freedom, confidence) == pytest.approx(exact, abs=off)
        assert student_t(freedom, confidence) == round(student_t(freedom, confidence), 3)
    assert student_t(101, confidence) == round(float(scipy.stats.norm.ppf(quantile)), 3)
    assert student_t(10_000, confidence) == student_t(101, confidence)


def test_misprints() -> None:
    assert (student_t(1, 99.5), student_t(9, 99.5), student_t(12, 99.5)) == (318.313, 4.296, 3.929)


def test_editions() -> None:
    """By hand: means 3 and 6, variances 10/3 and 10, pooled 20/3, t(6) = 2.447."""
    x, y = (1.0, 2.0, 4.0, 5.0), (3.0, 4.0, 7.0, 10.0)
    assert summarise(x).median == 4.0
    assert summarise(x, Edition.NEW).median == 3.0
    assert summarise((1.0, 2.0, 4.0)).median == summarise((1.0, 2.0, 4.0), Edition.NEW).median
    old = difference(summarise(x), summarise(y))
    new = difference(summarise(x), summarise(y), edition=Edition.NEW)
    assert old.pooled_sd == new.pooled_sd == pytest.approx(math.sqrt(20 / 3))
    assert old.interval == new.interval == pytest.approx(2.447 * math.sqrt(20 / 3 / 2))
    assert old.percent == new.percent == 100.0
    assert old.percent_interval == pytest.approx(100 * old.interval / 3)
    ratio = 2.447 * math.sqrt((30 + 10 * 4) * 8 / (16 * 6)) / 3
    assert new.percent_interval == pytest.approx(100 * ratio)


@pytest.mark.slow
@given(samples, samples, st.sampled_from(CONFIDENCES))
def test_against_the_textbook(x: list[float], y: list[float], confidence: float) -> None:
    reference, other = summarise(x), summarise(y)
    comparison = difference(reference, other, confidence=confidence)
    assert comparison.difference == pytest.approx(np.mean(y) - np.mean(x))
    if comparison.pooled_sd > 0.0:
        test = scipy.stats.ttest_ind_from_stats(
            np.mean(y), np.std(y, ddof=1), len(y), np.mean(x), np.std(x, ddof=1), len(x)
        )
        assert pooled_p_value(reference, other) == pytest.approx(float(test.pvalue), abs=1e-12)
        t = student_t(len(x) + len(y) - 2, confidence)
        statistic = abs(float(test.statistic))
        assert comparison.interval * statistic == pytest.approx(t * abs(comparison.difference))
        assert comparison.proven == (abs(comparison.difference) > comparison.interval)


def test_equal_constants_are_no_difference() -> None:
    three = summarise((5.0, 5.0, 5.0))
    assert not difference(three, three).proven
    assert pooled_p_value(three, three) == 1.0
    assert pooled_p_value(three, summarise((6.0, 6.0, 6.0))) == 0.0


def test_a_reference_mean_of_zero_has_no_percentages() -> None:
    zero, one = summarise((-1.0, 0.0, 1.0)), summarise((0.0, 1.0, 2.0))
    for edition in Edition:
        assert difference(zero, one, edition=edition).percent == math.inf
    assert math.isnan(difference(zero, zero).percent)


def test_bad_arguments() -> None:
    with pytest.raises(ValueError, match="at least 3 values, got 2"):
        summarise((1.0, 2.0))
    with pytest.raises(ValueError, match="finite"):
        summarise((1.0, 2.0, math.nan))
    with pytest.raises(ValueError, match=r"one of 80, 90, 95, 98, 99, 99\.5, got 97"):
        student_t(5, 97.0)
    with pytest.raises(ValueError, match="degrees of freedom"):
        student_t(0, 95.0)
