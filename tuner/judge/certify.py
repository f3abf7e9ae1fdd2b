"""Certification: the one claim made to the user, finalist against baseline on fresh blocks.

Owns the certificate: evidence that the finalist is faster and that no component loses more than the
floor allows, or otherwise the largest improvement that is still compatible with the data. The
blocks must not have been used in the search; this module cannot check that.

Error: a certificate requires the gain and every floor to be shown (an intersection-union test), so
P(certified although the finalist is not faster, or although some component breaks the floor) <=
alpha with each test at the full alpha, without splitting it. This holds when looking after every
block.

Skewed or dependent differences invalidate the t-type test. If the guards of `assumptions` warn of
them, certify with `robust`: the sign-flip test must then show the gain too.

What to expect (alpha .025, floor 5%): the floors, not the gain, decide the number of blocks. For a
component that the finalist does not change, 80% power takes 9 blocks at sd(D_c) = 3%, 17 at 5%,
more than 50 at 10% (power 74% at 50) and is out of reach at 15% (34%) and 20% (20%). For one that
it makes 10% faster: 3, 5, 10, 18 and 29. With noisy components plan 30 to 50 blocks, make each
measurement longer, or choose a wider floor before the first block.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from tuner.judge.adjustment import DifferenceAdjustment, raw_alpha
from tuner.judge.confidence import Interval, bounds
from tuner.judge.evalue import MIN_PAIRS, Floats, Moments, e_from_log, moments
from tuner.judge.robust import sign_flip_e_value
from tuner.judge.score import (
    checked_weights,
    component_differences,
    component_names,
    margin,
)
from tuner.judge.thresholds import threshold
from tuner.judge.verdict import METHOD, Outcome, Verdict, describe
from tuner.judge.words import at_least, percent
from tuner.model import COVARIATES


class CertificateOutcome(StrEnum):
    """State of the claim: shown, refuted or out of blocks, or still open."""

    CERTIFIED = "certified"
    NOT_CERTIFIED = "not_certified"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class PairedTimes:
    """One fresh block: component times (s) of the finalist and of the baseline, and the differences
    of the covariates in the order of ``tuner.model.COVARIATES`` (NaN: missing).
    """

    candidate_s: tuple[float, ...]
    baseline_s: tuple[float, ...]
    covariates: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class ComponentVerdict:
    """Whether the component `name` keeps the floor: `holds`, `broken`, or neither shown yet.
    `passes`: shown to keep it at the error level that the certificate requires.

    verdict.e_value and .threshold are those of "not worse than the floor allows"; verdict.outcome
    and .interval compare the component with the baseline itself.
    """

    holds: bool
    passes: bool
    broken: bool
    verdict: Verdict
    name: str


@dataclass(frozen=True, slots=True)
class Certificate:
    """Finalist against baseline.

    largest_compatible_improvement, least_improvement: one-sided bounds of level 1 - alpha on the
    improvement exp(-D) - 1, as fractions (.05 = 5% faster): "at most" and "at least". They are
    infinite and -1 as long as the data give no bound. verdict.interval is two-sided, of level
    1 - 2 alpha, for display. alpha: the one-sided level of the certificate, a share if there are
    several finalists. doubt: what else must show the gain and does not; "" if there is nothing.
    reason: a sentence with the outcome, the estimate and what else decided; conclusion: the same
    without the estimate and what it rules out, for display beside these.
    """

    outcome: CertificateOutcome
    verdict: Verdict
    components: tuple[ComponentVerdict, ...]
    largest_compatible_improvement: float
    least_improvement: float
    alpha: float
    reason: str
    conclusion: str
    doubt: str = ""

    @property
    def is_certified(self) -> bool:
        return self.outcome is CertificateOutcome.CERTIFIED


def certify(
    component_times_by_block: Sequence[PairedTimes],
    weights: Sequence[float],
    *,
    floor: float,
    alpha: float = 0.025,
    max_n: int | None = None,
    components: Sequence[str] = (),
    robust: bool = False,
    floor_alpha: float | None = None,
    adjustment: DifferenceAdjustment | None = None,
) -> Certificate:
    """Judge a finalist against the baseline from fresh blocks; may be called after every block.

    certified: E(-D) reaches the threshold for alpha, and so does E(ln(1 + floor) - D_c) for every
    component. With `robust` the sign-flip test on -D must reach 1/alpha too, which takes at least 7
    blocks at .025. not_certified: the finalist is shown to be slower, or a component to be worse
    than the floor, or max_n blocks have been used. undecided: more blocks are needed.

    floor_alpha: the one-sided error at which each floor must be shown, if not alpha; then
    P(certified although a given component breaks its floor) <= floor_alpha. A component that is
    shown at alpha to break its floor rules the finalist out regardless.

    adjustment: of the score, fixed before the first of these blocks. The gain is then judged by
    adjusted differences, and must also be shown by the raw ones at ``raw_alpha(alpha)``; floors
    are judged by raw differences.

    weights: one per component, summing to 1. floor: largest loss allowed to a component, a
    fraction. max_n: number of blocks fixed before the first one, for calibrated thresholds; with
    None, or beyond max_n blocks, Ville's threshold applies, without an upper limit.
    components: names used in the reasons; numbered by default. Raises ValueError for times not
    above 0, unequal numbers of components, values out of range.
    """
    horizon = max_n if max_n is None or len(component_times_by_block) <= max_n else None
    level = threshold(alpha, horizon)
    floor_level = level if floor_alpha is None else threshold(floor_alpha, horizon)
    weight_row = checked_weights(weights, len(weights))
    names = component_names(components, len(weight_row))
    shape = (len(component_times_by_block), len(weight_row))
    candidate = _table([pair.candidate_s for pair in component_times_by_block], shape)
    baseline = _table([pair.baseline_s for pair in component_times_by_block], shape)
    d = component_differences(candidate, baseline)
    raw = scored = d @ weight_row
    if adjustment is not None and adjustment.used and len(raw):
        rows = [
            pair.covariates or (math.nan,) * len(COVARIATES) for pair in component_times_by_block
        ]
        scored = adjustment.adjusted(raw, np.array(rows))
    robust_e = sign_flip_e_value(-scored)
    score = moments(scored)
    by_component = moments(d.T)
    verdict = _verdict(score, level, alpha)
    by_name = _components(by_component, names, margin(floor), level, floor_level, alpha)
    doubt = ""
    if robust and robust_e < 1.0 / alpha:
        doubt = f"not confirmed by the sign-flip test (e-value {robust_e:.3g} of {1.0 / alpha:.3g})"
    if scored is not raw and not doubt:
        doubt = _raw_doubt(moments(raw), alpha, horizon)
    outcome, reason, conclusion = _conclude(verdict, by_name, floor, max_n, doubt)
    return Certificate(
        outcome=outcome,
        verdict=verdict,
        components=by_name,
        largest_compatible_improvement=_improvement(verdict.interval.lower),
        least_improvement=_improvement(verdict.interval.upper),
        alpha=alpha,
        reason=reason,
        conclusion=conclusion,
        doubt=doubt,
    )


def certify_several(
    blocks_by_finalist: Mapping[int, Sequence[PairedTimes]],
    weights: Sequence[float],
    *,
    floor: float,
    alpha: float = 0.025,
    max_n: int | None = None,
    components: Sequence[str] = (),
    robust: Collection[int] = (),
    floor_alpha: float | None = None,
    adjustments: Mapping[int, DifferenceAdjustment] | None = None,
) -> dict[int, Certificate]:
    """Judge several finalists so that P(any of them is certified wrongly) <= alpha.

    Holm's step-down over their certificates: with k finalists still open, each is judged at alpha /
    k; certified ones are removed, and the rest are judged again with the smaller k. Each
    certificate carries the level at which it was reached; the others carry the last level tried.
    robust: the finalists whose gain the sign-flip test must show too. Other arguments, errors and
    validity after every block as for `certify`; the finalists may share baseline measurements.
    Source: Holm (1979), valid under any dependence.
    """
    certificates: dict[int, Certificate] = {}
    still_open = dict(blocks_by_finalist)
    while still_open:
        current = {
            finalist: certify(
                blocks,
                weights,
                floor=floor,
                alpha=alpha / len(still_open),
                max_n=max_n,
                components=components,
                robust=finalist in robust,
                floor_alpha=floor_alpha,
                adjustment=(adjustments or {}).get(finalist),
            )
            for finalist, blocks in still_open.items()
        }
        certified = {f: c for f, c in current.items() if c.is_certified}
        if not certified:
            return {f: (certificates | current)[f] for f in blocks_by_finalist}
        certificates |= certified
        still_open = {f: blocks for f, blocks in still_open.items() if f not in certified}
    return {f: certificates[f] for f in blocks_by_finalist}


def _raw_doubt(raw: Moments, alpha: float, horizon: int | None) -> str:
    """Explain that the raw differences do not confirm the gain; "" if they do."""
    e, level = float(e_from_log(raw.log_e_below())), threshold(raw_alpha(alpha), horizon)
    if e >= level:
        return ""
    return f"not confirmed without the adjustment (e-value {e:.3g} of {level:.3g})"


def _verdict(m: Moments, level: float, alpha: float) -> Verdict:
    """Candidate against baseline without a margin: better, worse or undecided."""
    n, estimate = int(m.n), float(m.mean)
    low, high = bounds(m, level)
    interval = Interval(float(low), float(high))
    faster, slower = float(e_from_log(m.log_e_below())), float(e_from_log(m.log_e_above()))
    outcome, e = Outcome.UNDECIDED, faster
    if n >= MIN_PAIRS and faster >= level:
        outcome = Outcome.BETTER
    elif n >= MIN_PAIRS and slower >= level:
        outcome, e = Outcome.WORSE, slower
    sentence = describe(estimate, interval, n, confidence=1.0 - 2.0 * alpha, reference="baseline")
    return Verdict(outcome, estimate, interval, e, level, n, METHOD, sentence)


def _components(
    m: Moments,
    names: tuple[str, ...],
    limit: float,
    level: float,
    floor_level: float,
    alpha: float,
) -> tuple[ComponentVerdict, ...]:
    below, above = e_from_log(m.log_e_below(limit)), e_from_log(m.log_e_above(limit))
    verdicts = []
    for index in range(len(m.n)):
        one = Moments(m.n[index], m.mean[index], m.variance[index])
        verdict = replace(_verdict(one, level, alpha), e_value=float(below[index]))
        enough = int(one.n) >= MIN_PAIRS
        verdicts.append(
            ComponentVerdict(
                holds=enough and bool(below[index] >= level),
                passes=enough and bool(below[index] >= floor_level),
                broken=enough and bool(above[index] >= level),
                verdict=verdict,
                name=names[index],
            )
        )
    return tuple(verdicts)


def _conclude(
    verdict: Verdict,
    components: tuple[ComponentVerdict, ...],
    floor: float,
    max_n: int | None,
    doubt: str,
) -> tuple[CertificateOutcome, str, str]:
    """Return the outcome, its reason, and that without the estimate and what it rules out."""
    allowed = percent(margin(floor))
    used_up = max_n is not None and verdict.n >= max_n
    faster, sentence = verdict.outcome is Outcome.BETTER, verdict.reason
    if verdict.n < MIN_PAIRS:
        reason = f"undecided: {sentence}"
        return CertificateOutcome.UNDECIDED, reason, reason
    refused = CertificateOutcome.NOT_CERTIFIED
    for component in components:
        if component.broken:
            loss = f"{component.name} is {component.verdict.reason}"
            reason = f"not certified: {loss}, more than the floor of {allowed}"
            return refused, reason, reason
    if verdict.outcome is Outcome.WORSE:
        return refused, f"not certified: {sentence}", "not certified: shown to be slower"
    open_floors = [component.name for component in components if not component.passes]
    if faster and not open_floors and not doubt:
        least = at_least(verdict.interval.upper)
        promise = _floors_sentence(components, allowed)
        return (
            CertificateOutcome.CERTIFIED,
            f"certified: {sentence}, {least}; {promise}",
            f"certified: {promise}",
        )
    if faster:
        floors = f"{', '.join(open_floors)} not shown to keep the floor of {allowed}"
        missing = "; ".join(part for part in (floors if open_floors else "", doubt) if part)
        conclusion = missing
    else:
        missing, conclusion = _ruled_out(verdict.interval.lower), "no gain is shown"
    outcome, start = CertificateOutcome.UNDECIDED, "undecided"
    if used_up:
        outcome, start = refused, f"not certified after the {max_n} blocks allowed"
    return outcome, f"{start}: {sentence}; {missing}", f"{start}: {conclusion}"


def _floors_sentence(components: Sequence[ComponentVerdict], allowed: str) -> str:
    unsettled = [component for component in components if not component.holds]
    if not unsettled:
        return f"no component is more than {allowed} slower"
    bounds = ", ".join(
        f"{component.name} (up to {percent(component.verdict.interval.upper)} slower)"
        for component in unsettled
    )
    return f"no component is shown to break its floor of {allowed}; not settled: {bounds}"


def _ruled_out(lower: float) -> str:
    """State what a comparison that shows no gain does rule out."""
    if math.isinf(lower):
        return "no size of improvement has been ruled out yet"
    return f"an improvement of more than {percent(lower)} is ruled out"


def _table(times: list[tuple[float, ...]], shape: tuple[int, int]) -> Floats:
    for index, row in enumerate(times):
        if len(row) != shape[1]:
            raise ValueError(f"block {index}: need {shape[1]} component times, got {len(row)}")
    return np.array(times, dtype=np.float64).reshape(shape)


def _improvement(d: float) -> float:
    """exp(-d) - 1, or infinity if it exceeds the range of a double."""
    return math.expm1(-d) if d > -700.0 else math.inf
