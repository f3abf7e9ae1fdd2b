"""Covariate adjustment: subtract the effect of other load on the machines from the differences.

Owns the coefficients b of D - b dz, where dz is the difference of a covariate between the two arms
of a pair (``tuner.model.COVARIATES``, in processors). They are fitted on pilot and search blocks
and fixed from then on. On fresh blocks dz has mean 0 for a configuration that does not influence
the covariate, because the order within a block is random. So D - b dz has the same mean as D
whatever b is, and tests on it keep their error rate exactly; a good b only reduces the noise.

The fit. After block and trial effects are removed (``tuner.judge.observations``), b minimises

    sum (y - b z)^2 / s^2  +  sum ((b_j - m_j) / t_j)^2     within  0 <= b_j <= u_j,

the posterior mode under a normal prior with mean m and standard deviation t, restricted to a box:
other load can only slow a run down. s^2 is the residual variance, estimated together with b. The
priors are weak and come from campaigns in a private cell on two processors: .33 per processor used,
1 to 2 per processor stolen.

The fit is used only if, cross-validated over blocks, it reduces the squared residuals by at least
5% and by more than chance would (one-sided level of about .1).

Undetected influence. A configuration that lets other processes use .1 of a processor more gains
.033 from the adjustment, a third of what noise would. So a claim based on adjusted differences must
also be shown by the raw ones, at eight times the error (``raw_alpha``). That bounds the error at 8
alpha for any influence, however strong, because raw differences do not involve the covariates.
Together with the rules for refusing covariates, the measured error was 4.8% for the worst influence
found, at an alpha of 2.5%, and 1.8% without any (bench/error_rates). A stricter level would cost
most of what the adjustment gains. Without the test of the finalist the error was up to 17%, so
a finalist that the search measured in too few blocks for that test gets no adjustment.

On a saturated machine other processes get what the run leaves: less during a faster configuration,
more during a slower one, so D - b dz is nearer to 0 than D, by a sixth to a third. This never
creates a false gain, only a smaller one, but it could hide a loss. So floors are best tested on raw
differences, whatever the gain is tested on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from tuner.judge.evalue import Floats, Ints
from tuner.judge.influence import FINALIST_BLOCKS, Influence, can_test, influences
from tuner.judge.observations import Observations, Rows
from tuner.judge.score import checked_weights, component_names
from tuner.model import COVARIATES


@dataclass(frozen=True, slots=True)
class Prior:
    """Prior of a coefficient, in log time per processor: mean, standard deviation, upper bound."""

    mean: float
    deviation: float
    bound: float


#: Keyed by the first word of a covariate's name.
PRIORS: Final[Mapping[str, Prior]] = {
    "others": Prior(0.33, 0.33, 1.0),
    "stolen": Prior(1.5, 1.0, 4.0),
    "iowait": Prior(0.0, 0.5, 2.0),
}

_UNITS: Final = tuple(
    max(prior.mean, prior.deviation)
    for prior in (PRIORS[name.partition("_")[0]] for name in COVARIATES)
)

WORDS: Final[Mapping[str, str]] = {
    "others_server": "processor time used by others on the server's machine",
    "others_clients": "processor time used by others on the clients' machines",
    "stolen_server": "time stolen from the server's machine",
    "stolen_clients": "time stolen from the clients' machines",
    "iowait_server": "waiting for disks on the server's machine",
    "iowait_clients": "waiting for disks on the clients' machines",
}

MIN_BLOCKS: Final = 6
"""Minimum number of blocks for fitting coefficients."""

#: Minimum residual degrees of freedom, and minimum standard deviation of a covariate in processors,
#: for a fit.
_MIN_FREEDOM: Final = 8
_MIN_SPREAD: Final = 0.005
#: Minimum share of rows in which a covariate is present.
_MIN_KNOWN: Final = 0.8
#: Only the newest blocks are used, because the load on a machine changes over time.
_MOST_BLOCKS: Final = 400
_MOST_FOLDS: Final = 40

#: Maximum ratio of held-out squared residuals with and without the adjustment, and minimum
#: improvement over the folds in standard errors.
_MOST_RATIO: Final = 0.95
_LEAST_Z: Final = 1.28

_RAW_FACTOR: Final = 8.0
_MOST_RAW_ALPHA: Final = 0.2


@dataclass(frozen=True, slots=True)
class DifferenceAdjustment:
    """The adjustment of one kind of difference: the score's or one component's.

    ``coefficients``: in the order of ``COVARIATES``, log time per processor; all 0 if there is no
    adjustment. ``variance_without``, ``variance_with``: held-out variance of a difference around
    its trial's mean, without and with the adjustment; NaN if nothing could be fitted. ``reason``:
    one sentence.
    """

    coefficients: tuple[float, ...]
    variance_without: float
    variance_with: float
    reason: str

    @property
    def used(self) -> bool:
        """Whether any coefficient is nonzero."""
        return any(self.coefficients)

    def adjusted(self, differences: Floats, covariates: Floats) -> Floats:
        """Return D - b dz, for differences (...) and covariates (..., covariates). A missing dz
        (NaN) counts as 0, its mean.
        """
        present = np.nan_to_num(covariates, nan=0.0)
        return np.asarray(differences - present @ np.asarray(self.coefficients), dtype=np.float64)


@dataclass(frozen=True, slots=True)
class Adjustment:
    """Adjustments of the score and of each component, each with its own coefficients.

    ``refusals``: one sentence for each covariate that was not used, keyed by its name. ``blocks``:
    number of blocks in the fit.
    """

    score: DifferenceAdjustment
    components: tuple[DifferenceAdjustment, ...]
    refusals: Mapping[str, str]
    blocks: int


def raw_alpha(alpha: float) -> float:
    """Return the one-sided error at which raw differences must confirm a claim shown by adjusted
    ones at ``alpha``: 8 ``alpha``, at most .2, or ``alpha`` itself above that.
    """
    return min(_RAW_FACTOR * alpha, max(_MOST_RAW_ALPHA, alpha))


def scaled(covariates: Sequence[float | None]) -> tuple[float | None, ...]:
    """Return covariates, in the order of ``COVARIATES``, in units whose expected effect on log time
    is about 1: times the standard deviation of the prior, or its mean if that is larger.
    """
    return tuple(
        None if value is None else value * unit
        for value, unit in zip(covariates, _UNITS, strict=False)
    )


def no_adjustment(components: int, reason: str) -> Adjustment:
    """Return an adjustment that changes nothing. ``reason``: one sentence."""
    return _none(components, reason, {}, 0)


def fit_adjustment(
    observations: Observations,
    weights: Sequence[float],
    *,
    components: Sequence[str] = (),
    finalist: int | None = None,
    seed: int = 0,
) -> Adjustment:
    """Fit the coefficients to use from now on.

    observations: arms of pilot and search blocks, never of blocks that a claim is tested on.
    weights: score weights, one per component. components: names used in sentences. finalist: the
    trial to be certified; its influence on the covariates is tested as well, and nothing is
    adjusted if it has too few blocks for that. Deterministic for a given ``seed`` (of the influence
    test) and given blocks.
    """
    weight_row = checked_weights(weights, observations.logs.shape[1])
    names = ("score", *component_names(components, len(weight_row)))
    if len(np.unique(observations.block)) > _MOST_BLOCKS:
        newest = np.unique(observations.block)[-_MOST_BLOCKS]
        observations = observations.only(observations.block >= newest)
    y = np.column_stack([observations.logs @ weight_row, observations.logs])
    columns = _known_columns(observations)
    if not columns.size:
        message = "other load on the machines was not recorded"
        return no_adjustment(len(weight_row), f"no adjustment: {message}")
    rows = Rows.of(observations, y, columns)
    if rows.blocks < MIN_BLOCKS or rows.freedom < _MIN_FREEDOM:
        message = f"{rows.blocks} blocks are too few to estimate the cost of other load"
        return _none(len(weight_row), f"no adjustment: {message}", {}, rows.blocks)
    if finalist is not None and not can_test(rows, finalist):
        message = (
            f"the search measured the configuration in fewer than {FINALIST_BLOCKS} blocks, too "
            "few to test whether other load depends on it"
        )
        return _none(len(weight_row), f"no adjustment: {message}", {}, rows.blocks)
    spread = np.sqrt((rows.within(rows.z) ** 2).sum(axis=0) / rows.freedom)
    refusals = {
        COVARIATES[column]: _refusal(COVARIATES[column], influence)
        for column, influence in zip(columns, influences(rows, finalist, seed=seed), strict=True)
        if influence.is_refused
    }
    moving = [
        number
        for number, column in enumerate(columns)
        if spread[number] >= _MIN_SPREAD and COVARIATES[column] not in refusals
    ]
    if not moving:
        message = next(iter(refusals.values()), "other load did not differ between arms")
        return _none(len(weight_row), f"no adjustment: {message}", refusals, rows.blocks)
    used = columns[moving]
    rows = Rows.of(observations, y, used)
    score, *others = _fits(rows, used, names)
    return Adjustment(score, tuple(others), refusals, rows.blocks)


def _known_columns(observations: Observations) -> Ints:
    """Return the indices of the covariates that are present in nearly all rows."""
    if not len(observations.trial):
        return np.empty(0, np.int64)
    return np.flatnonzero((~np.isnan(observations.covariates)).mean(axis=0) >= _MIN_KNOWN)


def _refusal(name: str, influence: Influence) -> str:
    message = f"{WORDS[name]} depends on the configuration"
    return f"{message} (p = {min(influence.any_trial, influence.finalist):.3f})"


def _fits(rows: Rows, columns: Ints, names: Sequence[str]) -> list[DifferenceAdjustment]:
    """Fit an adjustment for each target of the rows."""
    y, z = rows.within(rows.y), rows.within(rows.z)
    folds = min(rows.blocks, _MOST_FOLDS)
    fold = rows.block % folds
    zz = np.zeros((folds, z.shape[1], z.shape[1]))
    zy = np.zeros((folds, y.shape[1], z.shape[1]))
    np.add.at(zz, fold, z[:, :, None] * z[:, None, :])
    np.add.at(zy, fold, y[:, :, None] * z[:, None, :])
    priors = [PRIORS[COVARIATES[column].partition("_")[0]] for column in columns]
    variance = (y**2).sum(axis=0) / rows.freedom
    whole = np.zeros_like(zy[0])
    for _ in range(3):
        whole = _posterior(zz.sum(axis=0), zy.sum(axis=0), variance, priors)
        variance = np.maximum(((y - z @ whole.T) ** 2).sum(axis=0) / rows.freedom, 1e-12)
    # Leave-one-fold-out coefficients: (folds, targets, covariates).
    coefficients_of_fold = _posterior(zz.sum(axis=0) - zz, zy.sum(axis=0) - zy, variance, priors)
    residuals = y - np.einsum("nc,ntc->nt", z, coefficients_of_fold[fold])
    loss = np.zeros((2, folds, y.shape[1]))
    np.add.at(loss[0], fold, y**2)
    np.add.at(loss[1], fold, residuals**2)
    return [
        _fit_of(name, columns, whole[number], loss[..., number], rows)
        for number, name in enumerate(names)
    ]


def _posterior(zz: Floats, zy: Floats, variance: Floats, priors: Sequence[Prior]) -> Floats:
    """Posterior mode within the box: zz (..., covariates, covariates), zy (..., targets,
    covariates), variance (targets,). Uses coordinate descent, which handles box constraints.
    """
    mean, deviation, bound = np.array([(p.mean, p.deviation, p.bound) for p in priors]).T
    precision = np.maximum(variance, 1e-12)[:, None, None]
    a = zz[..., None, :, :] / precision + np.diag(deviation**-2.0)
    c = zy / precision[..., 0] + mean / deviation**2
    b = np.broadcast_to(np.clip(mean, 0.0, bound), c.shape).copy()
    for _ in range(100):
        before = b.copy()
        for j in range(len(priors)):
            rest = c[..., j] - (a[..., j, :] * b).sum(axis=-1) + a[..., j, j] * b[..., j]
            b[..., j] = np.clip(rest / a[..., j, j], 0.0, bound[j])
        if float(np.abs(b - before).max()) < 1e-10:
            break
    return b


def _fit_of(
    name: str, columns: Ints, coefficients: Floats, loss: Floats, rows: Rows
) -> DifferenceAdjustment:
    """Accept or reject a fit. loss: held-out squared residuals, (without and with it, folds)."""
    zero = (0.0,) * len(COVARIATES)
    without, with_it = (2.0 * float(part.sum()) / rows.freedom for part in loss)
    if without <= 0.0:
        return DifferenceAdjustment(
            zero, without, with_it, f"no adjustment of the {name}: no noise to explain"
        )
    gained = loss[0] - loss[1]
    error = float(gained.std(ddof=1)) * len(gained) ** 0.5
    ratio = with_it / without
    if ratio > _MOST_RATIO or float(gained.sum()) < _LEAST_Z * error:
        message = f"would have {ratio:.2f} times its variance on blocks left out of the fit"
        return DifferenceAdjustment(zero, without, with_it, f"no adjustment: the {name} {message}")
    whole = np.zeros(len(COVARIATES))
    whole[columns] = coefficients
    terms = [
        f"{WORDS[COVARIATES[column]]} ({value:.2f} per processor)"
        for column, value in zip(columns, coefficients, strict=True)
        if value > 0.0
    ]
    message = f"the {name} is adjusted for {' and '.join(terms)}"
    reason = f"{message}: {100.0 * (1.0 - ratio):.0f}% less variance on blocks left out of the fit"
    return DifferenceAdjustment(tuple(whole.tolist()), without, with_it, reason)


def _none(components: int, reason: str, refusals: Mapping[str, str], blocks: int) -> Adjustment:
    nothing = DifferenceAdjustment((0.0,) * len(COVARIATES), float("nan"), float("nan"), reason)
    return Adjustment(nothing, (nothing,) * components, refusals, blocks)
