"""Guards: detect violated assumptions that would make the tests' error guarantees invalid.

Owns the checks of the assumptions behind the tests on differences D, and the sentences that report
them. The t-type tests need differences that are not skewed and do not depend on those of earlier
blocks; both are checked on all comparisons of a campaign together, since a single one is too short
to show them. Guards warn and refuse; they never drop a value.

Skewness and trend pool a statistic g over K series, one for each comparison, of n blocks each (NaN
if a block has no such pair), standardised by its mean 0 and its deviation under independent normal
differences: z = sum w g / sqrt(sum w w' sd sd' r^p), where r is the correlation of two series over
their common blocks (they share a reference), and p = 3 for skewness, 1 for a trend. Dependence is
tested on the arms behind the differences (`tuner.judge.serial`), on each testbed apart.

A warning costs little: the claim must then pass a second test, and a sentence is reported with it.
So skewness and dependence warn at the limit where a missed effect is as likely as a false alarm:
beyond effect / (2 se) standard errors, where se is the error that the available measurements leave.
The limit is loose for few blocks and strict for many, within bounds: a two-sided level of 10 to 1%
for skewness, a one-sided one of 10 to 1% for dependence. It is also strict for measurements that
are too few to tell either way, as in a pilot. A refusal is always strict.

What to expect of 4 comparisons of 20 blocks: if nothing is wrong, 1% warn of skewness (far more if
both tails are heavy), 10% of dependence, 1% of a trend; exponential differences are detected in
99%, an autocorrelation of all arms of .3 in 87% and of .5 in 99%.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tuner.judge.evalue import MIN_PAIRS, Floats, Ints, checked_differences, e_value
from tuner.judge.robust import sign_flip_e_value
from tuner.judge.serial import SerialCorrelation, lag_one
from tuner.judge.series import Series
from tuner.judge.words import change

#: Differences of one or several comparisons: NaN-padded (series, blocks), or a sparse Series.
Differences = Sequence[float] | Sequence[Sequence[float]] | Floats | Series

MIN_BLOCKS: Final = 5
"""Minimum number of blocks for estimating the shape or trend of a series."""

# Effects worth detecting: slightly less than the L-skewness of an exponential tail, 1/3, since the
# noise of the other arm blurs it; and the autocorrelation that triples the error rate.
_SKEW_EFFECT: Final = 0.3
_DEPENDENCE_EFFECT: Final = 0.3

# Standard errors beyond which a guard warns: with few and with many measurements. If measurements
# are so scarce that either mistake would occur in one of four cases, the strict limit applies.
_SKEW_LIMITS: Final = (1.645, 2.576)
_DEPENDENCE_LIMITS: Final = (1.282, 2.326)
_SCARCE: Final = 0.7
_TREND_LIMIT: Final = 2.576
_STRONG_LIMIT: Final = 2.326

STRONG_DEPENDENCE: Final = 0.25
"""Lag-1 autocorrelation of D beyond which, if clearly shown, claims are refused: at this value
false claims are two to three times as frequent as the nominal rate."""

# If the t-type test rejects, the robust one should have reached this fraction of its 1/alpha.
_CONFIRMED: Final = 0.25


class GuardKind(StrEnum):
    """The assumption that a guard checks."""

    SKEWNESS = "skewness"
    DEPENDENCE = "dependence"
    TREND = "trend"
    BASELINE_DEPENDENCE = "baseline_dependence"
    BASELINE_DRIFT = "baseline_drift"
    DISAGREEMENT = "disagreement"


class Alarm(StrEnum):
    """Severity of a guard's result: nothing, a warning, or a reason to refuse a claim."""

    NONE = "none"
    WARN = "warn"
    REFUSE = "refuse"


@dataclass(frozen=True, slots=True)
class Guard:
    """Result of one guard. value: its statistic in its own unit; z: in standard errors.

    n: number of differences used. reason: one sentence for display, whatever the alarm.
    """

    kind: GuardKind
    alarm: Alarm
    value: float
    z: float
    n: int
    reason: str


def skewness(differences: Differences) -> Guard:
    """Check for skewness: pooled L-skewness of differences, NaN-padded (series, blocks).

    value: ratio of the third to the second L-moments, each summed over the series weighted by
    number of blocks (Hosking 1990), within [-1, 1]. An outlier weighs less in it than in third
    powers, and a series with little spread less than one that shows its tail. Left-skewed D (value
    < 0) shows "slower" too often, right-skewed D shows "faster" too often, up to four times the
    nominal rate. Raises ValueError for infinite differences.
    """
    pool = _Pool.of(differences)
    if pool.total == 0:
        return _too_early(GuardKind.SKEWNESS, "skewness")
    scale, third = pool.l_moments()
    n = pool.n.astype(np.float64)
    # For normal values; the first two terms are from Hosking and Wallis (1997), the last simulated.
    sd = np.sqrt((0.1866 + 0.8 / n + 2.0 / n**2) / n)
    value, error = pool.combine(third / scale, n * scale * pool.scale, sd, power=3)
    z = value / error
    if abs(z) < _limit(_SKEW_EFFECT, error, _SKEW_LIMITS):
        alarm, sentence = Alarm.NONE, "the differences are not skewed"
    else:
        alarm = Alarm.WARN
        sentence = (
            f"the differences are skewed to the {'slower' if value > 0.0 else 'faster'} side: "
            f"{'faster' if value > 0.0 else 'slower'} is shown too easily, "
            "so the sign-flip test must show it as well"
        )
    reason = f"{sentence} (L-skewness {value:+.2f}, {abs(z):.1f} standard errors)"
    return Guard(GuardKind.SKEWNESS, alarm, value, z, pool.total, reason)


def dependence(differences: Differences, testbed: Ints | None = None) -> Guard:
    """Check for serial dependence: the lag-1 autocorrelation of the arms from block to block.

    differences: NaN-padded (series, blocks), in the order measured, all against the same reference;
    a missing block breaks the chain. value: 0 without dependence; if all arms have the same
    autocorrelation, that of the arms and of the differences. Positive autocorrelation inflates
    every error; a strong one is a reason to refuse a claim. testbed: shape (blocks,), the number of
    each block's testbed, from 0; None if there is only one. Raises ValueError for infinite
    differences.
    """
    pool = _Pool.of(_by_testbed(differences, testbed), least=MIN_PAIRS)
    serial = pool.serial()
    if serial is None:
        return _too_early(GuardKind.DEPENDENCE, "dependence")
    alarm, sentence = Alarm.NONE, "the differences do not depend on those of the block before"
    if serial.z >= _limit(_DEPENDENCE_EFFECT, serial.error, _DEPENDENCE_LIMITS):
        strong = serial.value >= STRONG_DEPENDENCE and serial.z >= _STRONG_LIMIT
        alarm = Alarm.REFUSE if strong else Alarm.WARN
        sentence = "the differences depend on those of the block before: " + (
            "the evidence is far overstated" if strong else "the evidence is overstated"
        )
    sizes = f"lag-1 autocorrelation {serial.value:+.2f}, {abs(serial.z):.1f} standard errors"
    reason = f"{sentence} ({sizes})"
    return Guard(GuardKind.DEPENDENCE, alarm, serial.value, serial.z, pool.total, reason)


def trend(differences: Differences) -> Guard:
    """Check whether differences grow or shrink over time; value: their change, log units.

    differences: NaN-padded (series, blocks), in the order measured. The change is from the first
    block of a series to its last, averaged over the series weighted by number of blocks. Raises
    ValueError for infinite differences.
    """
    pool = _Pool.of(differences)
    value, z = pool.slope()
    if pool.total == 0:
        return _too_early(GuardKind.TREND, "a trend")
    if abs(z) < _TREND_LIMIT:
        alarm, sentence = Alarm.NONE, "the differences do not change over time"
    else:
        alarm = Alarm.WARN
        sentence = "the differences change over time: the measured effect may not last"
    reason = f"{sentence} (from first to last block {change(value)}, {abs(z):.1f} standard errors)"
    return Guard(GuardKind.TREND, alarm, value, z, pool.total, reason)


def baseline_dependence(scores: Sequence[float] | Floats, testbed: Ints | None = None) -> Guard:
    """Lag-1 autocorrelation of the baseline's log scores, shape (blocks,); never an alarm.

    Pairing within randomised blocks removes it from the differences. testbed: as for `dependence`.
    """
    pool = _Pool.of(_by_testbed(scores, testbed))
    serial = pool.serial()
    if serial is None:
        return _too_early(GuardKind.BASELINE_DEPENDENCE, "dependence of the baseline")
    is_shown = serial.z >= _limit(_DEPENDENCE_EFFECT, serial.error, _DEPENDENCE_LIMITS)
    sentence = "the baseline's times " + (
        "depend on those of the block before; pairing within blocks takes care of it"
        if is_shown
        else "do not depend on those of the block before"
    )
    reason = f"{sentence} (lag-1 autocorrelation {serial.value:+.2f})"
    return Guard(
        GuardKind.BASELINE_DEPENDENCE, Alarm.NONE, serial.value, serial.z, pool.total, reason
    )


def baseline_drift(scores: Sequence[float] | Floats) -> Guard:
    """Change of the baseline's log scores, shape (blocks,), from first to last; never an alarm."""
    pool = _Pool.of(scores)
    value, z = pool.slope()
    if pool.total == 0:
        return _too_early(GuardKind.BASELINE_DRIFT, "drift of the baseline")
    if abs(z) >= _TREND_LIMIT:
        sentence = f"the baseline became {change(value)} over {pool.total} blocks"
        reason = f"{sentence}; pairing within blocks takes care of it"
    else:
        of = f"{change(value)} over {pool.total} blocks, within the noise"
        reason = f"no drift of the baseline is shown ({of})"
    return Guard(GuardKind.BASELINE_DRIFT, Alarm.NONE, value, z, pool.total, reason)


def disagreement(
    differences: Sequence[float] | Floats, *, threshold: float, alpha: float = 0.025
) -> Guard:
    """Check whether the sign-flip test contradicts the t-type one; value: its e-value; z is 0.

    differences: one comparison, shape (blocks,), in the order measured. threshold: of the t-type
    test; the sign-flip test uses 1/alpha, each in both directions. The tests contradict each other
    if the t-type test shows a difference for which the sign-flip test has less than a quarter of
    the required evidence, although that many blocks could provide all of it, or if only the
    sign-flip test shows one. If measuring continues, this catches most false claims from skewed
    differences and few true ones. Raises ValueError for differences that are not finite.
    """
    d = checked_differences(differences)
    if d.size < MIN_PAIRS:
        return _too_early(GuardKind.DISAGREEMENT, "whether the two tests agree")
    faster = float(d.mean()) < 0.0
    towards = -d if faster else d
    level, e, robust = 1.0 / alpha, e_value(towards), sign_flip_e_value(towards)
    against = sign_flip_e_value(-towards)
    able = sign_flip_e_value(np.ones(d.size)) >= level
    word = "faster" if faster else "slower"
    alarm = Alarm.WARN
    if e >= threshold and robust < _CONFIRMED * level and able:
        sentence = f"the t-type test shows {word}, the sign-flip test does not"
    elif e < threshold and max(robust, against) >= level:
        conclusion = word if robust >= against else ("slower" if faster else "faster")
        sentence = f"the sign-flip test shows {conclusion}, the t-type test does not"
    else:
        alarm, sentence = (
            Alarm.NONE,
            "the t-type and the sign-flip test do not contradict each other",
        )
    reason = f"{sentence} (e-values {e:.3g} of {threshold:.3g} and {robust:.3g} of {level:.3g})"
    return Guard(GuardKind.DISAGREEMENT, alarm, robust, 0.0, d.size, reason)


def watch(
    differences: Series | Floats,
    baseline_scores: Sequence[float] | Floats,
    *,
    twins: NDArray[np.bool_],
    testbed: Ints | None = None,
) -> tuple[Guard, ...]:
    """Run all guards of a campaign except `disagreement`, which is about a single comparison.

    differences: each trial against the baseline; baseline_scores: log scores, shape (blocks,). Both
    in the order measured. twins: shape (series,), true for a series that is a second run of the
    baseline; its differences are symmetric whatever tails the runs have, and would dilute the
    skewness of the others. testbed: as for `dependence`.
    """
    series = differences if isinstance(differences, Series) else Series.of(differences)
    return (
        skewness(series.only(~twins)),
        dependence(series, testbed),
        trend(series),
        baseline_dependence(baseline_scores, testbed),
        baseline_drift(baseline_scores),
    )


@dataclass(frozen=True, slots=True)
class _Pool:
    """The series that are long enough, in units of their own standard deviation."""

    units: Series  # each with mean 0 and mean square 1 over its blocks
    n: NDArray[np.int64]
    scale: Floats

    @classmethod
    def of(cls, differences: Differences, least: int = MIN_BLOCKS) -> _Pool:
        series = differences if isinstance(differences, Series) else Series.of(differences)
        n = series.counts()
        mean = series.sums(series.value) / np.maximum(n, 1)
        centred = series.value - mean[series.row]
        scale = np.sqrt(series.sums(centred**2) / np.maximum(n, 1))
        # Equal readings have no shape, but rounding leaves them a spread of a few ulps.
        size = np.zeros(series.size[0])
        np.maximum.at(size, series.row, np.abs(series.value))
        usable = (n >= least) & (scale > 1e-12 * size)
        units = centred / np.where(usable, scale, 1.0)[series.row]
        return cls(series.with_values(units).only(usable), n[usable], scale[usable])

    @property
    def total(self) -> int:
        return int(self.n.sum())

    def combine(self, g: Floats, weight: Floats, sd: Floats, *, power: int) -> tuple[float, float]:
        """Weighted average of g, and its standard error if each has mean 0 and deviation sd."""
        weight = weight / float(weight.sum())
        first, second = self.units.together()
        row, value = self.units.row, self.units.value
        pairs, which = np.unique(row[first] * len(self.n) + row[second], return_inverse=True)
        one, other = np.divmod(pairs, len(self.n))
        common = np.bincount(which).astype(np.float64)
        shared = np.bincount(which, weights=value[first] * value[second])
        own = np.bincount(which, weights=value[first] ** 2)
        of_other = np.bincount(which, weights=value[second] ** 2)
        size = np.sqrt(np.maximum(own * of_other, 1e-300))
        correlation = np.where(common >= MIN_BLOCKS, np.clip(shared / size, -1.0, 1.0), 0.0)
        correlation[one == other] = 1.0
        # Series that overlap in few blocks cannot be as dependent as those blocks alone.
        overlap = common / np.sqrt(self.n[one] * self.n[other])
        spread = weight * sd
        variance = float((spread[one] * spread[other] * correlation**power * overlap).sum())
        alone = float((spread**2).sum())
        return float(weight @ g), math.sqrt(max(variance, alone))

    def serial(self) -> SerialCorrelation | None:
        """Lag-1 autocorrelation of the arms behind the series."""
        return lag_one(self.units.with_values(self.units.value * self.scale[self.units.row]))

    def l_moments(self) -> tuple[Floats, Floats]:
        """Second and third sample L-moment of each series, in units of its deviation.

        Source: Hosking (1990), from the unbiased probability-weighted moments of sorted values.
        """
        row = self.units.row
        ranked = self.units.value[np.lexsort((self.units.value, row))]
        n = self.n.astype(np.float64)[row]
        below = np.arange(len(row)) - (np.cumsum(self.n) - self.n)[row].astype(np.float64)
        once = self.units.sums(below / (n - 1.0) * ranked) / self.n
        parts = below * (below - 1.0) / ((n - 1.0) * (n - 2.0)) * ranked
        twice = self.units.sums(parts) / self.n
        return 2.0 * once, 6.0 * (twice - once)

    def slope(self) -> tuple[float, float]:
        """Change of a linear fit from first to last block, log units, and its z."""
        if self.total == 0:
            return 0.0, 0.0
        row, n = self.units.row, self.n.astype(np.float64)
        blocks = self.units.column.astype(np.float64)
        time = blocks - (self.units.sums(blocks) / n)[row]
        spread = np.sqrt(self.units.sums(time**2) / n)
        r = self.units.sums(time * self.units.value) / np.maximum(n * spread, 1e-300)
        mean_r, error = self.combine(r, n, 1.0 / np.sqrt(n - 1.0), power=1)
        last = np.cumsum(self.n) - 1
        reach = blocks[last] - blocks[last - self.n + 1]
        change_of_each = r * self.scale * reach / np.maximum(spread, 1e-300)
        return float(n @ change_of_each) / self.total, mean_r / error


def _by_testbed(differences: Differences, testbed: Ints | None) -> Differences:
    if testbed is None:
        return differences
    series = differences if isinstance(differences, Series) else Series.of(differences)
    return series.by_testbed(testbed)


def _limit(effect: float, error: float, limits: tuple[float, float]) -> float:
    """Standard errors at which both mistakes about an effect are equally likely, within limits."""
    loose, strict = limits
    balanced = effect / (2.0 * error)
    return strict if balanced < _SCARCE else min(max(balanced, loose), strict)


def _too_early(kind: GuardKind, what: str) -> Guard:
    return Guard(kind, Alarm.NONE, 0.0, 0.0, 0, f"too few blocks to assess {what}")
