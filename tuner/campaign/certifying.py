"""The end of a search: whom to certify, on which terms, and when to stop. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tuner.campaign.rules import Rules
from tuner.campaign.times import difference_table, times_by_trial
from tuner.judge.certify import Certificate, CertificateOutcome, PairedTimes, certify
from tuner.judge.monitors import Alarm, Guard, GuardKind, disagreement, watch
from tuner.judge.score import score_differences
from tuner.judge.thresholds import threshold
from tuner.model import BASELINE, Block, BlockKind
from tuner.states import BlockState

#: Guards whose warning makes the claim rest on the sign-flip test too: they hurt the t-type test.
_HURT_T_TESTS = (GuardKind.SKEWNESS, GuardKind.DEPENDENCE, GuardKind.DISAGREEMENT)
_ALPHA = 0.025  # of a certificate, one-sided


@dataclass(frozen=True, slots=True)
class Certification:
    """How the certification of a finalist stands.

    ``guards``: those of the search, and the second opinion on the fresh pairs. ``more``: another
    block can change the answer.
    """

    finalist: int
    certificate: Certificate
    guards: tuple[Guard, ...]
    more: bool


def guards(blocks: Sequence[Block], rules: Rules) -> tuple[Guard, ...]:
    """What speaks against taking the differences measured so far at their word."""
    table, baseline = difference_table(blocks, rules.components, rules.weights)
    return watch(table, baseline) if table.size else ()


def finalist_begun(blocks: Sequence[Block]) -> int | None:
    """The trial whose certification has begun, if one has: it stays the finalist."""
    begun = next((b for b in blocks if b.kind is BlockKind.CERTIFY), None)
    return None if begun is None else next((n for n in begun.order if n != BASELINE), None)


def certification(
    finalist: int, blocks: Sequence[Block], rules: Rules, watched: Sequence[Guard]
) -> Certification:
    """Judge a finalist by the fresh blocks so far, on the terms that the guards leave.

    A warning of skewed or dependent differences, or of two tests that contradict each other, makes
    the claim rest on the sign-flip test too; a refusal leaves no claim at all.
    """
    fresh = [b for b in blocks if b.kind is BlockKind.CERTIFY and b.state is BlockState.COMPLETE]
    pairs = [_pair(block, finalist, rules) for block in fresh]
    known = (*watched, *_second_opinion(pairs, rules))
    certificate = certify(
        pairs,
        rules.weights,
        floor=rules.race.floor,
        max_n=rules.certify_blocks,
        resolution_s=rules.race.resolution_s,
        components=rules.components,
        robust=any(g.kind in _HURT_T_TESTS and g.alarm is not Alarm.NONE for g in known),
    )
    refusal = next((g.reason for g in known if g.alarm is Alarm.REFUSE), None)
    if refusal is not None and certificate.outcome is CertificateOutcome.CERTIFIED:
        outcome, reason = CertificateOutcome.NOT_CERTIFIED, f"not certified: {refusal}"
        certificate = replace(certificate, outcome=outcome, reason=reason)
    undecided = certificate.outcome is CertificateOutcome.UNDECIDED
    # Once a gain worth acting on is ruled out, more blocks cannot change the advice.
    worth_it = certificate.largest_compatible_improvement > rules.race.delta
    return Certification(finalist, certificate, known, undecided and worth_it)


def _second_opinion(pairs: Sequence[PairedTimes], rules: Rules) -> tuple[Guard, ...]:
    """Whether the sign-flip test contradicts the t-type one on these pairs."""
    if not pairs:
        return ()
    differences = score_differences(
        [p.candidate_s for p in pairs], [p.baseline_s for p in pairs], rules.weights
    )
    level = threshold(_ALPHA, max(rules.certify_blocks, len(pairs)))
    return (disagreement(differences, threshold=level, alpha=_ALPHA),)


def _pair(block: Block, finalist: int, rules: Rules) -> PairedTimes:
    times = times_by_trial(block, rules.components)
    return PairedTimes(times[finalist], times[BASELINE])
