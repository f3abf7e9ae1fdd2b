"""Attempts at a certificate: the terms on which they are judged, and when one is over. Pure."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from tuner.judge.adjustment import DifferenceAdjustment
from tuner.judge.assumptions import Alarm, Guard, GuardKind, disagreement, watch
from tuner.judge.certify import (
    Certificate,
    CertificateOutcome,
    PairedTimes,
    certify,
    certify_several,
)
from tuner.judge.levels import FLOOR_ALPHA
from tuner.judge.score import margin, score_differences
from tuner.judge.series import Series
from tuner.judge.thresholds import threshold
from tuner.model import BASELINE, COVARIATES, BlockKind, BlockTimes
from tuner.plan.attempts import Attempt
from tuner.plan.rules import Floors, Rules
from tuner.plan.scores import ScoreTable
from tuner.plan.steps import Finish

#: Complete blocks at the first look of the guards.
_FIRST_LOOK = 10
#: Guards whose warning requires the sign-flip test in addition, since they undermine the t-type
#: test.
_HURT_T_TESTS = (GuardKind.SKEWNESS, GuardKind.DEPENDENCE, GuardKind.DISAGREEMENT)


@dataclass(frozen=True, slots=True)
class Certification:
    """State of the certification of the finalists.

    ``certificates``: by finalist, without those that failed. ``guards``: those of the search, and
    the second opinions on the fresh pairs. ``open``: the finalists for which another block can
    change the answer. ``adjustments``: of the fresh differences, by finalist. ``latest``: by
    finalist, the certificate by all fresh blocks where those after its certificate left the gain or
    a floor open again.
    """

    certificates: Mapping[int, Certificate]
    guards: tuple[Guard, ...]
    open: tuple[int, ...]
    adjustments: Mapping[int, DifferenceAdjustment] = field(default_factory=dict)
    latest: Mapping[int, Certificate] = field(default_factory=dict)

    @property
    def best(self) -> int | None:
        """The finalist to report: the one with the largest proven gain, certified finalists first.

        All claims of a gain hold simultaneously, so choosing among them costs no error. With
        several finalists, each bound on the gain holds by itself (Holm's procedure has no
        simultaneous bounds at these levels).
        """
        return min(self.certificates, key=self._rank, default=None)

    @property
    def certified(self) -> tuple[int, ...]:
        """The certified finalists, that with the largest proven gain first."""
        every = (f for f, c in self.certificates.items() if c.is_certified)
        return tuple(sorted(every, key=self._rank))

    def finish(self, finalist: int, attempt: int | None = None) -> Finish:
        """Return the answer that this finalist would be. ``attempt``: see ``Finish``."""
        return Finish(
            finalist,
            self.certificates[finalist],
            attempt=attempt,
            guards=self.guards,
            adjustment=self.adjustments.get(finalist),
            latest=self.latest.get(finalist),
        )

    def _rank(self, finalist: int) -> tuple[bool, float]:
        certificate = self.certificates[finalist]
        return not certificate.is_certified, certificate.verdict.interval.upper


def certified_finalists(attempts: Sequence[Certification]) -> frozenset[int]:
    """The finalists that any of the attempts has certified."""
    return frozenset(finalist for each in attempts for finalist in each.certified)


def nearest(attempts: Sequence[Certification]) -> Finish:
    """Return the finalist that came nearest to a certificate, as judged by its newest attempt."""
    newest = {finalist: each for each in attempts for finalist in each.certificates}

    def rank(finalist: int) -> tuple[float, int]:
        return newest[finalist].certificates[finalist].verdict.interval.upper, finalist

    best = min(newest, key=rank, default=None)
    return Finish(None, None) if best is None else newest[best].finish(best)


def can_narrow(answer: Finish, attempts: Sequence[Attempt], rules: Rules) -> bool:
    """Whether further fresh blocks can narrow the certified result: its attempt may have more
    blocks, and its gain is not known to within delta or some floor is not shown to be met.
    """
    if answer.certificate is None or answer.attempt is None:
        return False
    interval = answer.certificate.verdict.interval
    precise = interval.upper - interval.lower <= 2.0 * margin(rules.race.delta)
    floors = all(component.holds for component in answer.certificate.components)
    fresh = len(attempts[answer.attempt - 1].blocks)
    return fresh < rules.certify_blocks and not (precise and floors)


def finalist_to_narrow(answer: Finish, attempts: Sequence[Attempt]) -> tuple[tuple[int, ...], int]:
    """Return the certified finalist, to be measured again, and the round of its attempt."""
    assert answer.finalist is not None
    assert answer.attempt is not None
    return (answer.finalist,), attempts[answer.attempt - 1].round


def guards(table: ScoreTable, until: int | None = None) -> tuple[Guard, ...]:
    """Check the differences measured so far for reasons why they may be misleading.

    ``until``: consider only the complete blocks up to this index in the table. A certificate is
    judged by what was known at its block; checking again after every later block would eventually
    raise some alarm.
    """
    differences = table.differences()
    inside = differences.column <= (len(differences.baseline) if until is None else until)
    if not inside.any():
        return ()
    baseline = differences.baseline if until is None else differences.baseline[: until + 1]
    rows, row = np.unique(differences.series[inside], return_inverse=True)
    size = (rows.size, baseline.size)
    series = Series.of_entries(row, differences.column[inside], differences.value[inside], size)
    testbed = differences.testbed[: baseline.size]
    return watch(series, baseline, twins=differences.pilot[rows], testbed=testbed)


def guards_due(table: ScoreTable, at_once: int = 1) -> bool:
    """Whether the guards are due for a check: at every block of certification, and before that only
    at 10, 20, 40, 80, ... complete blocks (with several blocks measured ``at_once``, at the last of
    those that reach such a number).

    The error rate of a guard holds for a single check. If they were checked after every block,
    nearly half of all sound campaigns would show a warning that further blocks withdraw.
    """
    if table.scored and table.scored[-1].block.kind is BlockKind.CERTIFY:
        return True
    newest = len(table.scored)
    return any(map(_is_look, range(max(1, newest - at_once + 1), newest + 1)))


def _is_look(blocks: int) -> bool:
    looks, rest = divmod(blocks, _FIRST_LOOK)
    return looks > 0 and rest == 0 and looks.bit_count() == 1


def certification(
    attempt: Attempt,
    rules: Rules,
    watched: Sequence[Guard],
    failed: Collection[int] = (),
    adjustments: Mapping[int, DifferenceAdjustment] | None = None,
) -> Certification:
    """Judge the finalists by the fresh blocks so far, on the terms that the guards allow.

    ``adjustments``: by finalist, fixed before the attempt's first block.

    If a guard warns of skewed or dependent differences, or of two tests that contradict each other,
    the claim must also pass the sign-flip test; a refusal rules out any claim. A finalist that
    ``failed`` is excluded, but keeps its share of the error.
    """
    pairs = {f: paired(attempt.blocks, f) for f in attempt.finalists}
    share = attempt.alpha / len(attempt.finalists)
    opinions = {f: _second_opinion(pairs[f], rules, share) for f in attempt.finalists}
    judgements = certify_several(
        pairs,
        rules.weights,
        floor=rules.race.floor,
        alpha=attempt.alpha,
        max_n=rules.certify_blocks,
        components=rules.components,
        robust=[f for f in attempt.finalists if suspect((*watched, *opinions[f]))],
        floor_alpha=_floor_alpha(rules),
        adjustments=adjustments,
    )
    certificates = {
        f: _unless_refused(c, watched) for f, c in judgements.items() if f not in failed
    }
    guards_of_all = (*watched, *(guard for f in certificates for guard in opinions[f]))
    still_open = open_finalists(certificates, rules)
    return Certification(certificates, guards_of_all, still_open, adjustments or {})


def single(
    fresh: Sequence[BlockTimes],
    configuration: int,
    rules: Rules,
    watched: Sequence[Guard],
    alpha: float,
) -> tuple[Certificate, tuple[Guard, ...]]:
    """Judge one trial on its own, at its own error, on the terms of ``certification``.

    Returns its certificate and the second opinion on its pairs.
    """
    pairs = paired(fresh, configuration)
    opinion = _second_opinion(pairs, rules, alpha)
    certificate = certify(
        pairs,
        rules.weights,
        floor=rules.race.floor,
        alpha=alpha,
        max_n=rules.certify_blocks,
        components=rules.components,
        robust=suspect((*watched, *opinion)),
        floor_alpha=_floor_alpha(rules),
    )
    return _unless_refused(certificate, watched), opinion


def _floor_alpha(rules: Rules) -> float | None:
    return None if rules.floors is Floors.STRICT else FLOOR_ALPHA


def open_finalists(certificates: Mapping[int, Certificate], rules: Rules) -> tuple[int, ...]:
    """The finalists worth another block: undecided, and not yet shown to be no better than another.

    More blocks cannot change the advice once they rule out a gain worth acting on, or a gain larger
    than the one another finalist is certain to bring.
    """
    certain = [c.least_improvement for c in certificates.values() if c.is_certified]
    smallest = max([rules.race.delta, *certain])
    return tuple(
        finalist
        for finalist, c in certificates.items()
        if c.outcome is CertificateOutcome.UNDECIDED and c.largest_compatible_improvement > smallest
    )


def spoilt(certificate: Certificate) -> bool:
    """Whether the finalist is shown to be slower or to break a floor."""
    return certificate.largest_compatible_improvement < 0.0 or any(
        component.broken for component in certificate.components
    )


def _unless_refused(certificate: Certificate, watched: Sequence[Guard]) -> Certificate:
    if (forbids := refusal(watched)) is None:
        return certificate
    certificate = replace(certificate, doubt=forbids)
    if not certificate.is_certified:
        return certificate
    reason = f"not certified: {forbids}"
    outcome = CertificateOutcome.NOT_CERTIFIED
    return replace(certificate, outcome=outcome, reason=reason, conclusion=reason)


def refusal(guards: Sequence[Guard]) -> str | None:
    """Return why no claim may be made at all, as a sentence; None if one may."""
    return next((g.reason for g in guards if g.alarm is Alarm.REFUSE), None)


def suspect(guards: Sequence[Guard]) -> bool:
    """Whether a guard warns of something that undermines the t-type test, so that a certificate
    must also pass the sign-flip test.
    """
    return suspicion(guards) is not None


def suspicion(guards: Sequence[Guard]) -> str | None:
    """Return what undermines the t-type test, as a sentence; None if nothing is known to."""
    hurt = (g for g in guards if g.kind in _HURT_T_TESTS and g.alarm is not Alarm.NONE)
    return next((g.reason for g in hurt), None)


def _second_opinion(pairs: Sequence[PairedTimes], rules: Rules, alpha: float) -> tuple[Guard, ...]:
    """Whether the sign-flip test contradicts the t-type one on these pairs."""
    if not pairs:
        return ()
    differences = score_differences(
        [p.candidate_s for p in pairs], [p.baseline_s for p in pairs], rules.weights
    )
    level = threshold(alpha, max(rules.certify_blocks, len(pairs)))
    return (disagreement(differences, threshold=level, alpha=alpha),)


def paired(fresh: Sequence[BlockTimes], finalist: int) -> list[PairedTimes]:
    """Return a finalist's fresh pairs. Blocks in which it failed or was not measured have none."""
    return [
        PairedTimes(block.times_s[finalist], block.times_s[BASELINE], _covariates(block, finalist))
        for block in fresh
        if finalist in block.times_s
    ]


def _covariates(block: BlockTimes, finalist: int) -> tuple[float, ...]:
    """Covariates of the finalist minus those of the baseline; empty if either is missing."""
    own, base = (block.covariates.get(number, ()) for number in (finalist, BASELINE))
    if len(own) != len(COVARIATES) or len(base) != len(COVARIATES):
        return ()
    return tuple(
        math.nan if mine is None or theirs is None else mine - theirs
        for mine, theirs in zip(own, base, strict=True)
    )
