"""Guards: what in the measurements would make the tests promise more than they hold.

Owns the watch over the assumptions behind the tests on differences D, and the words for what it
sees. The t-type tests need differences that do not lean to one side and do not depend on those of
the blocks before; both are checked on all comparisons of a campaign together, since one alone is
too short to show them. Guards warn and refuse; they never drop a value.

Skewness and trend pool a statistic g of K series, one for each comparison, of n blocks each (NaN
where a block has no such pair), standardised by its mean 0 and deviation under independent normal
differences: z = sum w g / sqrt(sum w w' sd sd' r^p), with r the correlation of two series over
their common blocks (they share a reference), and p = 3 for skewness, 1 for a trend. Dependence is
looked for in the arms behind the differences (`tuner.judge.serial`).

A warning costs little: the claim must then convince a second test, and a sentence stands beside it.
So skewness and dependence warn where missing what is worth noticing would be as likely as warning
without cause: beyond effect / (2 se) standard errors, with the error se that the measurements at
hand leave. Few blocks are judged loosely, many strictly, within bounds: a two-sided level of 10 to
1% for skewness, one-sided of 10 to 1% for dependence; and strictly those, as a pilot's, that are
too few to tell either way. A refusal is strict throughout.

What to expect of 4 comparisons of 20 blocks: with nothing wrong 1% warn of skewness (far more
where tails are heavy on both sides), 10% of dependence, 1% of a trend; exponential differences
are noticed in 99%, an autocorrelation of .3 of all arms in 87%, of .5 in 99%.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tuner.judge.evalue import MIN_PAIRS, Floats, checked_differences, e_value
from tuner.judge.robust import sign_flip_e_value
from tuner.judge.serial import SerialCorrelation, lag_one
from tuner.judge.series import Series
from tuner.judge.words import change

#: Differences of one comparison or several: NaN-padded (series, blocks), or only what was measured.
Differences = Sequence[float] | Sequence[Sequence[float]] | Floats | Series

MIN_BLOCKS: Final = 5
"""Fewest blocks that show the shape of a series, or a trend."""

# What is worth noticing: a bit less than the L-skewness of an exponential tail, 1/3, which the
# noise of the other arm blurs; and the autocorrelation that breaks promises threefold.
_SKEW_EFFECT: Final = 0.3
_DEPENDENCE_EFFECT: Final = 0.3

# Standard errors from which a guard warns: with few measurements, and with plenty. With so few that
# either mistake would be made in one of four cases only what is plain is told.
_SKEW_LIMITS: Final = (1.645, 2.576)
_DEPENDENCE_LIMITS: Final = (1.282, 2.326)
_SCARCE: Final = 0.7
_TREND_LIMIT: Final = 2.576
_STRONG_LIMIT: Final = 2.326

STRONG_DEPENDENCE: Final = 0.25
"""Lag-1 autocorrelation of D from which, once clearly shown, claims are refused: false ones are two
to three times as frequent as promised."""

# Where the t-type test rejects, the robust one should have come this far towards its 1/alpha.
_CONFIRMED: Final = 0.25


class GuardKind(StrEnum):
    """What a guard looks at."""

    SKEWNESS = "skewness"
    DEPENDENCE = "dependence"
    TREND = "trend"
    BASELINE_DEPENDENCE = "baseline_dependence"
    BASELINE_DRIFT = "baseline_drift"
    DISAGREEMENT = "disagreement"


class Alarm(StrEnum):
    """How bad it is: nothing, worth a warning, or bad enough to refuse a claim."""

    NONE = "none"
    WARN = "warn"
    REFUSE = "refuse"


@dataclass(frozen=True, slots=True)
class Guard:
    """What one guard sees. value: its statistic in its own unit; z: in standard errors.

    n: differences behind it. reason: one sentence for a person, whatever the alarm.
    """

    kind: GuardKind
    alarm: Alarm
    value: float
    z: float
    n: int
    reason: str


def skewness(differences: Differences) -> Guard:
    """Whether differences lean to one side: pooled L-skewness, NaN-padded (series, blocks).

    value: the third L-moments of the series over their second ones, each summed by number of
    blocks (Hosking 1990), within [-1, 1]; one wild value weighs less in it than in third powers,
    and a series that lies close together less than one that shows its tail. Left-skewed D (value <
    0) shows "slower" too often, right-skewed D shows "faster" too often, up to four times as often
    as promised. Raises ValueError for infinite differences.
    """
    pool = _Pool.of(differences)
    if pool.total == 0:
        return _too_early(GuardKind.SKEWNESS, "skewness")
    scale, third = pool.l_moments()
    n = pool.n.astype(np.float64)
    # Of normal values; the first two terms from Hosking and Wallis (1997), the last simulated.
    sd = np.sqrt((0.1866 + 0.8 / n + 2.0 / n**2) / n)
    value, error = pool.combine(third / scale, n * scale * pool.scale, sd, power=3)
    z = value / error
    if abs(z) < _limit(_SKEW_EFFECT, error, _SKEW_LIMITS):
        alarm, sentence = Alarm.NONE, "the differences do not lean to one side"
    else:
        alarm = Alarm.WARN
        sentence = (
            f"the differences lean to the {'slower' if value > 0.0 else 'faster'} side: "
            f"{'faster' if value > 0.0 else 'slower'} is shown too easily, "
            "rely on the sign-flip test"
        )
    reason = f"{sentence} (L-skewness {value:+.2f}, {abs(z):.1f} standard errors)"
    return Guard(GuardKind.SKEWNESS, alarm, value, z, pool.total, reason)


def dependence(differences: Differences) -> Guard:
    """Whether arms follow themselves from block to block: their lag-1 autocorrelation.

    Differences: NaN-padded (series, blocks), in the order measured, all against the same reference;
    a missing block breaks the chain. value: 0 where nothing depends, and of the differences as of
    each arm where all arms do alike. Positive autocorrelation inflates every error; a strong one is
    a reason to refuse a claim. Raises ValueError for infinite differences.
    """
    pool = _Pool.of(differences, least=MIN_PAIRS)
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
    """Whether differences grow or shrink as time passes; value: their change, log units.

    Differences: NaN-padded (series, blocks), in the order measured; the change is from the first
    block of a series to its last, averaged over the series by their number of blocks. Raises
    ValueError for infinite differences.
    """
    pool = _Pool.of(differences)
    value, z = pool.slope()
    if pool.total == 0:
        return _too_early(GuardKind.TREND, "a trend")
    if abs(z) < _TREND_LIMIT:
        alarm, sentence = Alarm.NONE, "the differences do not change as time passes"
    else:
        alarm = Alarm.WARN
        sentence = "the differences change as time passes: what was measured may not be what lasts"
    reason = f"{sentence} (from first to last block {change(value)}, {abs(z):.1f} standard errors)"
    return Guard(GuardKind.TREND, alarm, value, z, pool.total, reason)


def baseline_dependence(scores: Sequence[float] | Floats) -> Guard:
    """Lag-1 autocorrelation of the baseline's log scores, shape (blocks,); never an alarm.

    Pairing within randomised blocks takes it out of the differences.
    """
    pool = _Pool.of(scores)
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
        reason = f"the baseline does not drift ({change(value)} over {pool.total} blocks)"
    return Guard(GuardKind.BASELINE_DRIFT, Alarm.NONE, value, z, pool.total, reason)


def disagreement(
    differences: Sequence[float] | Floats, *, threshold: float, alpha: float = 0.025
) -> Guard:
    """Whether the sign-flip test contradicts the t-type one; value: its e-value, z not used (0).

    differences: one comparison, shape (blocks,), in the order measured. threshold: of the t-type
    test; the sign-flip test has 1/alpha, each for both directions. It is a contradiction where the
    t-type test shows a difference that the other has no quarter of the evidence for, although so
    many blocks could give it all; or where only the other shows one. Most wrong claims from skewed
    differences come to this if blocks go on being measured, and few right ones. Raises ValueError
    for differences that are not finite.
    """
    d = checked_differences(differences)
    if d.size < MIN_PAIRS:
        return _too_early(GuardKind.DISAGREEMENT, "a second opinion")
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
) -> tuple[Guard, ...]:
    """All guards of a campaign but `disagreement`, which is about one comparison.

    differences: each trial against the baseline; baseline_scores: log
    scores, shape (blocks,). Both in the order measured. twins: shape (series,), where a series is a
    second run of the baseline: it leans to no side whatever tails the runs have, and would hide
    what the others show.
    """
    series = differences if isinstance(differences, Series) else Series.of(differences)
    return (
        skewness(series.only(~twins)),
        dependence(series),
        trend(series),
        baseline_dependence(baseline_scores),
        baseline_drift(baseline_scores),
    )


@dataclass(frozen=True, slots=True)
class _Pool:
    """Series long enough to be looked at, in units of their own deviation."""

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
        # Equal readings have no shape; rounding leaves them a spread of some ulps.
        size = np.zeros(series.size[0])
        np.maximum.at(size, series.row, np.abs(series.value))
        usable = (n >= least) & (scale > 1e-12 * size)
        units = centred / np.where(usable, scale, 1.0)[series.row]
        return cls(series.with_values(units).only(usable), n[usable], scale[usable])

    @property
    def total(self) -> int:
        return int(self.n.sum())

    def combine(self, g: Floats, weight: Floats, sd: Floats, *, power: int) -> tuple[float, float]:
        """Weighted average of g, and its standard error when each has mean 0 and deviation sd."""
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
        # Series with few common blocks cannot be as dependent as those blocks alone.
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
        """Change along a straight line from first to last block, log units, and its z."""
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


def _limit(effect: float, error: float, limits: tuple[float, float]) -> float:
    """Standard errors at which both mistakes about an effect are as likely, within the limits."""
    loose, strict = limits
    balanced = effect / (2.0 * error)
    return strict if balanced < _SCARCE else min(max(balanced, loose), strict)


def _too_early(kind: GuardKind, what: str) -> Guard:
    return Guard(kind, Alarm.NONE, 0.0, 0.0, 0, f"too few blocks to look for {what}")
