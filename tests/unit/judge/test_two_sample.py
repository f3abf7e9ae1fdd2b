"""Two samples: both tests against the textbook, the requirements of a claim, and error rates."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import scipy
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.judge.published import results
from tuner.judge.two_sample import (
    PAIRED,
    PERMUTATION,
    WELCH,
    WELCH_OF_LOGS,
    Comparison,
    Direction,
    claims,
    compare_paired,
    compare_samples,
)

samples = st.lists(st.integers(1, 200).map(float), min_size=3, max_size=6)


@pytest.mark.slow
@given(samples, samples, st.sampled_from([0.01, 0.05, 0.2]))
def test_against_the_textbook(x: list[float], y: list[float], alpha: float) -> None:
    comparison = compare_samples(x, y, alpha=alpha)
    logs = [np.log(np.array(v)) for v in (x, y)]
    if max(np.ptp(v) for v in logs) > 0.0:
        a, b = logs
        test = scipy.stats.ttest_ind_from_stats(
            b.mean(), b.std(ddof=1), b.size, a.mean(), a.std(ddof=1), a.size, equal_var=False
        )
        assert comparison.p_value == pytest.approx(float(test.pvalue), abs=1e-9)
        assert (0.0 in comparison.interval) == (comparison.p_value >= alpha)
    assert comparison.method == WELCH_OF_LOGS
    assert math.exp(comparison.estimate) == pytest.approx(
        scipy.stats.gmean(y) / scipy.stats.gmean(x)
    )


@pytest.mark.slow
@given(samples, samples)
def test_permutation_is_over_all_splits(x: list[float], y: list[float]) -> None:
    comparison = compare_samples(x, y)
    pooled = np.log(np.array(x + y))
    pooled -= pooled.mean()
    sums = [sum(split) for split in itertools.combinations(pooled.tolist(), len(x))]
    actual = float(pooled[: len(x)].sum())
    tails = (sum(s >= actual - 1e-7 for s in sums), sum(s <= actual + 1e-7 for s in sums))
    share = min(1.0, 2 * min(tails) / len(sums))
    assert comparison.p_robust == pytest.approx(share)
    assert comparison.robust_floor <= share


@pytest.mark.parametrize(
    ("label", "p"),
    [
        ("modesty.freebsd.times", 2 / 1716),
        ("ni.squeeze+afsonzfs.times", 0.9638694638694638),
        ("ni.squeeze+afsonzfs+-L.times", 1.0),
    ],
)
def test_permutation_of_published_values(label: str, p: float) -> None:
    """On the plain scale: the values are shifted below 0, where there are no logarithms."""
    (result,) = [r for r in results() if r.other.label == label]
    assert result.reference.values is not None
    assert result.other.values is not None
    comparison = compare_samples(
        [v - 1000.0 for v in result.reference.values], [v - 1000.0 for v in result.other.values]
    )
    assert comparison.method == WELCH
    assert not comparison.relative
    assert comparison.p_robust == pytest.approx(p)


@pytest.mark.slow
def test_many_values_are_split_at_random_and_very_many_not_at_all() -> None:
    x = np.random.default_rng(1).normal(100.0, 5.0, 3000)
    some = compare_samples(x[:40], x[40:80] + 2.0)
    exact = scipy.stats.permutation_test(
        (np.log(x[:40]), np.log(x[40:80] + 2.0)),
        lambda a, b: np.mean(a) - np.mean(b),
        n_resamples=20_000,
        rng=1,
    )
    assert some.p_robust == pytest.approx(float(exact.pvalue), abs=0.01)
    assert compare_samples(x[:40], x[40:80] + 2.0) == some
    many = compare_samples(x[:1500], x[1500:])
    assert (many.p_robust, many.robust_method) == (None, None)
    assert claims([many])[0].agree


def test_a_claim_needs_both_tests() -> None:
    x = (10.0, 10.1, 9.9, 10.05, 9.95, 10.0)
    clear = compare_samples(x, [v * 1.1 for v in x])
    assert claims([clear])[0].direction is Direction.HIGHER
    assert claims([compare_samples(x, [v * 0.9 for v in x])])[0].direction is Direction.LOWER
    assert claims([compare_samples(x, x)])[0].direction is Direction.NOT_SHOWN
    doubtful = replace(clear, p_robust=0.2)
    (claim,) = claims([doubtful])
    assert claim.direction is Direction.NOT_SHOWN
    assert (claim.robust, claim.agree, claim.p_value) == (True, False, 0.2)
    alone = replace(clear, p_value=0.2)
    assert claims([alone])[0].direction is Direction.NOT_SHOWN


def test_if_the_robust_test_cannot_reach_the_level_the_other_decides() -> None:
    """With three values against three, the smallest p-value is 2 of 20 splits."""
    comparison = compare_samples((10.0, 10.1, 9.9), (11.0, 11.1, 10.9))
    assert comparison.p_robust == comparison.robust_floor == pytest.approx(0.1)
    (claim,) = claims([comparison])
    assert (claim.direction, claim.robust, claim.agree) == (Direction.HIGHER, False, True)
    assert claim.p_value == comparison.p_value
    # At a level that it can reach, it counts.
    assert claims([comparison], alpha=0.2)[0].p_value == pytest.approx(0.1)


def test_correction_is_holm_of_the_p_values_of_the_claims() -> None:
    x = np.random.default_rng(2).normal(100.0, 2.0, (4, 9))
    comparisons = [
        compare_samples(x[0], v + shift) for v, shift in zip(x[1:], (0, 3, 8), strict=True)
    ]
    plain, corrected = claims(comparisons), claims(comparisons, correct=True)
    order = sorted(range(3), key=lambda i: plain[i].p_value)
    least = order[0]
    assert corrected[least].p_value == pytest.approx(3 * plain[least].p_value)
    assert corrected[least].direction is Direction.HIGHER
    assert all(c.p_value >= p.p_value for c, p in zip(corrected, plain, strict=True))


def test_no_spread_leaves_the_permutation_test() -> None:
    comparison = compare_samples((5.0,) * 4, (6.0,) * 4)
    assert (comparison.interval.lower, comparison.interval.upper) == (-math.inf, math.inf)
    assert comparison.p_value == comparison.p_robust == pytest.approx(2 / 70)
    assert claims([comparison])[0].direction is Direction.HIGHER
    same = compare_samples((5.0,) * 3, (5.0,) * 3)
    assert claims([same])[0].direction is Direction.NOT_SHOWN


differences = st.lists(
    st.floats(-1.0, 1.0).filter(lambda v: v == 0.0 or abs(v) > 1e-6), min_size=3, max_size=15
)


@pytest.mark.slow
@given(differences)
def test_paired_interval_and_test_agree(d: list[float]) -> None:
    comparison = compare_paired(d)
    assert (comparison.method, comparison.paired) == (PAIRED, True)
    if abs(comparison.p_value - 0.05) > 1e-9:
        assert (comparison.p_value < 0.05) == (0.0 not in comparison.interval)
    same = compare_paired([0.1] * len(d))
    assert same.p_robust == comparison.robust_floor == same.robust_floor


def test_pairing_shows_a_difference_that_common_noise_hides() -> None:
    rng = np.random.default_rng(4)
    base = np.exp(rng.normal(3.0, 0.3, 12))
    other = base * np.exp(rng.normal(-0.05, 0.01, 12))
    assert claims([compare_samples(base, other)])[0].direction is Direction.NOT_SHOWN
    paired = compare_paired(np.log(other / base))
    assert claims([paired])[0].direction is Direction.LOWER
    assert -0.05 in paired.interval


@pytest.mark.slow
def test_wrong_claims_are_rare_in_heavy_tails() -> None:
    """2,000 pairs of samples of 6 without a difference: at most .05 claims; standard error .005."""
    rng = np.random.default_rng(5)
    wrong = 0
    for _ in range(2000):
        x = np.exp(0.05 * rng.standard_t(3, (2, 6)))
        wrong += claims([compare_samples(x[0], x[1])])[0].direction is not Direction.NOT_SHOWN
    assert 0.01 < wrong / 2000 < 0.05 + 3 * 0.005


def test_bad_arguments() -> None:
    with pytest.raises(ValueError, match="at least 3 values, got 2"):
        compare_samples((1.0, 2.0), (1.0, 2.0, 3.0))
    with pytest.raises(ValueError, match="finite"):
        compare_samples((1.0, 2.0, math.inf), (1.0, 2.0, 3.0))
    with pytest.raises(ValueError, match="alpha"):
        compare_samples((1.0, 2.0, 3.0), (1.0, 2.0, 3.0), alpha=0.0)
    with pytest.raises(ValueError, match="blocks in common, got 2"):
        compare_paired((0.1, 0.2))
    with pytest.raises(ValueError, match="alpha"):
        claims([], alpha=1.0)
    empty: list[Comparison] = []
    assert claims(empty, correct=True) == ()
    assert compare_samples((1.0, 2.0, 3.0), (1.0, 2.0, 3.0)).robust_method == PERMUTATION
