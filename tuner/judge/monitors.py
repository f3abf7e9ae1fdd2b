"""Guards: what in the measurements would make the tests promise more than they hold.

Owns the watch over the assumptions behind the tests on differences D, and the words for what it
sees. The t-type tests need differences that do not lean to one side and do not depend on those of
the blocks before; both are checked on all comparisons of a campaign together, since one alone is
too short to show them. Guards warn and refuse; they never drop a value.

Each guard pools a statistic g of K series, one for each comparison, of n blocks each (NaN where a
block has no such pair), standardised by its mean and deviation under independent normal
differences: z = sum n g / sqrt(sum n n' sd sd' r^p), with r the correlation of two series over
their common blocks (they share a reference), and p = 3 for skewness, 2 for lag-1 autocorrelation, 1
for a trend. Dependence is looked for twice, in the differences and in the arms behind them: all
arms' scores, without the level of the block and of the arm. The former see a reference that keeps a
state better, the latter candidates that do, or all arms; the larger z counts.

What to expect: with nothing wrong 1 % of the looks warn of skewness (far more where tails are heavy
on both sides: one large value is on one side), 3 to 5 % of dependence, 1 % of a trend. With 4
comparisons of 20 blocks, exponential differences are noticed in 99 %, an autocorrelation of .3 in
about 72 %, of .5 in 98 %.
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
from tuner.judge.verdict import change

MIN_BLOCKS: Final = 5
"""Fewest blocks that a series needs to be looked at."""

# Standard errors from which a guard warns.
_SKEW_LIMIT: Final = 2.576
_TREND_LIMIT: Final = 2.576
_DEPENDENCE_LIMIT: Final = 1.75
_STRONG_LIMIT: Final = 2.326

STRONG_DEPENDENCE: Final = 0.25
"""Lag-1 autocorrelation of D from which, once clearly shown, claims are refused: false ones are two
to three times as frequent as promised."""

# Part of the largest residual of a stretch below which one is a rounding error.
_ROUNDING: Final = 1e-6

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
    """How bad it is: nothing, to be told, or bad enough to refuse a claim."""

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


def skewness(differences: Sequence[float] | Sequence[Sequence[float]] | Floats) -> Guard:
    """Whether differences lean to one side: pooled sample skewness, NaN-padded (series, blocks).

    Left-skewed D (value < 0) shows "slower" too often, right-skewed D shows "faster" too often, up
    to four times as often as promised. Raises ValueError for infinite differences.
    """
    pool = _Pool.of(differences)
    g = (pool.units**3).sum(axis=1) / np.maximum(pool.n, 1)
    n = pool.n.astype(np.float64)
    sd = np.sqrt(6.0 * (n - 2.0) / ((n + 1.0) * (n + 3.0)))
    value, z = pool.combine(g, 0.0 * n, sd, power=3)
    if pool.total == 0:
        return _too_early(GuardKind.SKEWNESS, "skewness")
    if abs(z) < _SKEW_LIMIT:
        alarm, said = Alarm.NONE, "the differences do not lean to one side"
    else:
        alarm = Alarm.WARN
        said = (
            f"the differences lean to the {'slower' if value > 0.0 else 'faster'} side: "
            f"{'faster' if value > 0.0 else 'slower'} is shown too easily, "
            "rely on the sign-flip test"
        )
    reason = f"{said} (skewness {value:+.2f}, {abs(z):.1f} standard errors)"
    return Guard(GuardKind.SKEWNESS, alarm, value, z, pool.total, reason)


def dependence(differences: Sequence[float] | Sequence[Sequence[float]] | Floats) -> Guard:
    """Whether differences follow those of the block before: pooled lag-1 autocorrelation.

    Differences: NaN-padded (series, blocks), in the order measured, all against the same reference;
    a missing block breaks the chain. value, z: of the differences or of the arms behind them,
    whichever shows more. Positive autocorrelation inflates every error; a strong one is a reason to
    refuse a claim. Raises ValueError for infinite differences.
    """
    pool = _Pool.of(differences)
    if pool.total == 0:
        return _too_early(GuardKind.DEPENDENCE, "dependence")
    looks = [seen.lag_one() for seen in (pool, pool.arms()) if seen.total]
    value, z = max(looks, key=lambda look: look[1])
    alarm, said = Alarm.NONE, "the differences do not depend on those of the block before"
    if z >= _DEPENDENCE_LIMIT:
        strong = value >= STRONG_DEPENDENCE and z >= _STRONG_LIMIT
        alarm = Alarm.REFUSE if strong else Alarm.WARN
        said = "the differences depend on those of the block before: " + (
            "far more is shown than is true" if strong else "more is shown than is true"
        )
    reason = f"{said} (lag-1 autocorrelation {value:+.2f}, {abs(z):.1f} standard errors)"
    return Guard(GuardKind.DEPENDENCE, alarm, value, z, pool.total, reason)


def trend(differences: Sequence[float] | Sequence[Sequence[float]] | Floats) -> Guard:
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
        alarm, said = Alarm.NONE, "the differences do not change as time passes"
    else:
        alarm = Alarm.WARN
        said = "the differences change as time passes: what was measured may not be what lasts"
    reason = f"{said} (from first to last block {change(value)}, {abs(z):.1f} standard errors)"
    return Guard(GuardKind.TREND, alarm, value, z, pool.total, reason)


def baseline_dependence(scores: Sequence[float] | Floats) -> Guard:
    """Lag-1 autocorrelation of the baseline's log scores, shape (blocks,); never an alarm.

    Pairing within randomised blocks takes it out of the differences.
    """
    pool = _Pool.of(scores)
    value, z = pool.lag_one()
    if pool.total == 0:
        return _too_early(GuardKind.BASELINE_DEPENDENCE, "dependence of the baseline")
    shown = z >= _DEPENDENCE_LIMIT
    said = "the baseline's times " + (
        "depend on those of the block before; pairing within blocks takes care of it"
        if shown
        else "do not depend on those of the block before"
    )
    reason = f"{said} (lag-1 autocorrelation {value:+.2f})"
    return Guard(GuardKind.BASELINE_DEPENDENCE, Alarm.NONE, value, z, pool.total, reason)


def baseline_drift(scores: Sequence[float] | Floats) -> Guard:
    """Change of the baseline's log scores, shape (blocks,), from first to last; never an alarm."""
    pool = _Pool.of(scores)
    value, z = pool.slope()
    if pool.total == 0:
        return _too_early(GuardKind.BASELINE_DRIFT, "drift of the baseline")
    if abs(z) >= _TREND_LIMIT:
        said = f"the baseline became {change(value)} over {pool.total} blocks"
        reason = f"{said}; pairing within blocks takes care of it"
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
    needed, e, robust = 1.0 / alpha, e_value(towards), sign_flip_e_value(towards)
    against = sign_flip_e_value(-towards)
    able = sign_flip_e_value(np.ones(d.size)) >= needed
    word = "faster" if faster else "slower"
    alarm = Alarm.WARN
    if e >= threshold and robust < _CONFIRMED * needed and able:
        said = f"the t-type test shows {word}, the sign-flip test does not"
    elif e < threshold and max(robust, against) >= needed:
        seen = word if robust >= against else ("slower" if faster else "faster")
        said = f"the sign-flip test shows {seen}, the t-type test does not"
    else:
        alarm, said = Alarm.NONE, "the t-type and the sign-flip test do not contradict each other"
    reason = f"{said} (e-values {e:.3g} of {threshold:.3g} and {robust:.3g} of {needed:.3g})"
    return Guard(GuardKind.DISAGREEMENT, alarm, robust, 0.0, d.size, reason)


def watch(
    differences: Sequence[Sequence[float]] | Floats, baseline_scores: Sequence[float] | Floats
) -> tuple[Guard, ...]:
    """All guards of a campaign but `disagreement`, which is about one comparison.

    differences: NaN-padded (series, blocks), each trial against the baseline; baseline_scores: log
    scores, shape (blocks,). Both in the order measured.
    """
    return (
        skewness(differences),
        dependence(differences),
        trend(differences),
        baseline_dependence(baseline_scores),
        baseline_drift(baseline_scores),
    )


@dataclass(frozen=True, slots=True)
class _Pool:
    """Series long enough to be looked at, in units of their own deviation; 0 where missing."""

    units: Floats  # (series, blocks), mean 0 and mean square 1 over the blocks present
    present: NDArray[np.bool_]
    n: NDArray[np.int64]
    scale: Floats
    share: Floats  # what a block of the series counts, of one that tells as much as it can

    @classmethod
    def of(
        cls,
        series: Sequence[float] | Sequence[Sequence[float]] | Floats,
        share: Floats | None = None,
    ) -> _Pool:
        x = np.atleast_2d(np.asarray(series, dtype=np.float64))
        if x.ndim != 2:
            raise ValueError(f"differences must be (series, blocks), got shape {x.shape}")
        present = ~np.isnan(x)
        x = checked_differences(np.where(present, x, 0.0))
        n = present.sum(axis=1)
        mean = x.sum(axis=1) / np.maximum(n, 1)
        centred = np.where(present, x - mean[:, None], 0.0)
        scale = np.sqrt((centred**2).sum(axis=1) / np.maximum(n, 1))
        # Equal readings have no shape; rounding leaves them a spread of some ulps.
        size = np.abs(x).max(axis=1, initial=0.0)
        usable = (n >= MIN_BLOCKS) & (scale > 1e-12 * size)
        return cls(
            units=centred[usable] / scale[usable, None],
            present=present[usable],
            n=n[usable].astype(np.int64),
            scale=scale[usable],
            share=np.ones(int(usable.sum())) if share is None else share[usable],
        )

    def arms(self) -> _Pool:
        """The arms behind the differences, the reference first, in each stretch of blocks.

        A stretch ends where a series begins. Levels of arms and blocks are fitted to it by least
        squares, so that it does not matter which arms a block lacks.
        """
        d = self.units * self.scale[:, None]
        begins = np.zeros(d.shape[1], dtype=np.int64)
        begins[self.present.argmax(axis=1)] = 1
        stretches = np.cumsum(begins)
        tables, shares = [], []
        for number in range(1, int(stretches[-1]) + 1):
            here = stretches == number
            present = self.present[:, here]
            of_stretch = present.any(axis=1)
            left, there = _arms_left(d[of_stretch][:, here], present[of_stretch])
            table = np.full((len(left), d.shape[1]), np.nan)
            table[:, here] = np.where(there, left, np.nan)
            tables.append(table)
            shares.append(np.full(len(left), 1.0 - 1.0 / len(left)))
        return _Pool.of(np.concatenate(tables), np.concatenate(shares))

    @property
    def total(self) -> int:
        return int(self.n.sum())

    @property
    def weight(self) -> Floats:
        """Of each series in an average over all."""
        told: Floats = self.n * self.share
        return told / float(told.sum())

    def combine(self, g: Floats, mean: Floats, sd: Floats, *, power: int) -> tuple[float, float]:
        """Average of g by number of blocks, and how many standard errors from its mean it is."""
        if self.total == 0:
            return 0.0, 0.0
        weight = self.weight
        both = self.present.astype(np.float64)
        common = both @ both.T
        shared = self.units @ self.units.T
        own = (self.units**2) @ both.T
        size = np.sqrt(np.maximum(own * own.T, 1e-300))
        correlation = np.where(common >= MIN_BLOCKS, np.clip(shared / size, -1.0, 1.0), 0.0)
        np.fill_diagonal(correlation, 1.0)
        # Series with few common blocks cannot be as dependent as those blocks alone.
        overlap = common / np.sqrt(np.outer(self.n, self.n))
        spread = weight * sd
        variance = float(spread @ (correlation**power * overlap) @ spread)
        alone = float((spread**2).sum())
        value = float(weight @ g)
        return value, float(weight @ (g - mean)) / math.sqrt(max(variance, alone))

    def lag_one(self) -> tuple[float, float]:
        """Lag-1 autocorrelation, corrected for the estimated mean, and its z (Moran 1948)."""
        n = self.n.astype(np.float64)
        followed = (self.present[:, 1:] & self.present[:, :-1]).sum(axis=1)
        # Where blocks are missing there are fewer products; put them on the scale of n - 1.
        share = (n - 1.0) / np.maximum(followed, 1)
        r = (self.units[:, 1:] * self.units[:, :-1]).sum(axis=1) / np.maximum(n, 1.0) * share
        sd = (n - 2.0) / (n * np.sqrt(np.maximum(n - 1.0, 1.0))) * np.sqrt(share)
        r, sd = np.where(followed > 0, r, -1.0 / n), np.where(followed > 0, sd, 0.0)
        value, z = self.combine(r, -1.0 / n, sd, power=2)
        if self.total == 0:
            return value, z
        return value + float(self.weight @ (1.0 / n)), z

    def slope(self) -> tuple[float, float]:
        """Change along a straight line from first to last block, log units, and its z."""
        n = self.n.astype(np.float64)
        blocks = np.arange(self.present.shape[1], dtype=np.float64)
        mean = (self.present * blocks).sum(axis=1) / np.maximum(n, 1.0)
        time = np.where(self.present, blocks - mean[:, None], 0.0)
        spread = np.sqrt((time**2).sum(axis=1) / np.maximum(n, 1.0))
        r = (time * self.units).sum(axis=1) / np.maximum(n * spread, 1e-300)
        _, z = self.combine(r, 0.0 * n, 1.0 / np.sqrt(np.maximum(n - 1.0, 1.0)), power=1)
        if self.total == 0:
            return 0.0, 0.0
        reach = np.where(self.present, blocks, -np.inf).max(axis=1)
        reach = reach - np.where(self.present, blocks, np.inf).min(axis=1)
        change_of_each = r * self.scale * reach / np.maximum(spread, 1e-300)
        return float(self.weight @ change_of_each), z


def _arms_left(d: Floats, present: NDArray[np.bool_]) -> tuple[Floats, NDArray[np.bool_]]:
    """What the levels of arms and blocks leave of the arms' scores, and where there are any.

    d, present: (candidates, blocks), 0 where missing. Returns (1 + candidates, blocks), reference
    first.
    """
    there = np.vstack([present.any(axis=0), present])
    held = there.astype(np.float64)
    scores = np.vstack([np.zeros(d.shape[1]), d])
    arms = np.maximum(held.sum(axis=0), 1.0)
    # The normal equations without the blocks' levels; the reference's level is 0.
    normal = np.diag(held.sum(axis=1)) - (held / arms) @ held.T
    summed = scores.sum(axis=1) - held @ (scores.sum(axis=0) / arms)
    level = np.append(0.0, np.linalg.solve(normal[1:, 1:], summed[1:]))
    left = (scores - level[:, None]) * held
    left = (left - left.sum(axis=0) / arms) * held
    # An arm that the others fit exactly keeps rounding errors only.
    size = np.abs(left).max(axis=1)
    return np.where((size > _ROUNDING * size.max())[:, None], left, 0.0), there


def _too_early(kind: GuardKind, what: str) -> Guard:
    return Guard(kind, Alarm.NONE, 0.0, 0.0, 0, f"too few blocks to look for {what}")
