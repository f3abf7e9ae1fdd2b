"""Attempts at a certificate: on which terms they are judged, and when one is over. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tuner.campaign.attempts import Attempt
from tuner.campaign.rules import FLOOR_ALPHA, Floors, Rules
from tuner.campaign.scores import ScoreTable
from tuner.campaign.steps import Finish
from tuner.judge.adjustment import DifferenceAdjustment
from tuner.judge.certify import (
    Certificate,
    CertificateOutcome,
    PairedTimes,
    certify,
    certify_several,
)
from tuner.judge.monitors import Alarm, Guard, GuardKind, disagreement, watch
from tuner.judge.score import margin, score_differences
from tuner.judge.series import Series
from tuner.judge.thresholds import threshold
from tuner.model import BASELINE, COVARIATES, BlockKind, BlockTimes
from tuner.propose.outlook import Outlook

#: Complete blocks at the first look of the guards.
_FIRST_LOOK = 10
#: Guards whose warning makes the claim rest on the sign-flip test too: they hurt the t-type test.
_HURT_T_TESTS = (GuardKind.SKEWNESS, GuardKind.DEPENDENCE, GuardKind.DISAGREEMENT)


@dataclass(frozen=True, slots=True)
class Certification:
    """How the certification of the finalists stands.

    ``certificates``: by finalist, those that failed left out. ``guards``: those of the search, and
    the second opinions on the fresh pairs. ``open``: the finalists for whom another block can
    change the answer.
    """

    certificates: Mapping[int, Certificate]
    guards: tuple[Guard, ...]
    open: tuple[int, ...]

    @property
    def best(self) -> int | None:
        """The finalist to tell of: of those certified, or else of all, the one shown to gain most.

        Every certificate holds at once, so that choosing among them costs nothing.
        """
        return min(self.certificates, key=self._rank, default=None)

    @property
    def certified(self) -> bool:
        """Whether a finalist is certified."""
        return any(map(_certified, self.certificates.values()))

    @property
    def spoilt(self) -> bool:
        """Whether it is shown of every finalist that it is slower, or breaks a floor."""
        return all(
            c.largest_compatible_improvement < 0.0
            or any(component.broken for component in c.components)
            for c in self.certificates.values()
        )

    def _rank(self, finalist: int) -> tuple[bool, float]:
        certificate = self.certificates[finalist]
        return not _certified(certificate), certificate.verdict.interval.upper


def best_certified(
    attempts: Sequence[Certification], outlook: Callable[[int], Outlook], delta: float
) -> Finish | None:
    """The answer so far, of the attempts in order; None where nothing is certified.

    A later attempt is made for what promises more, or as much with fewer settings. Its finalist is
    the answer when that has come true: not when it gained less than an earlier one gains at least,
    nor when all measurements (``outlook``, by trial) no longer expect so much of it. Every
    certificate holds at once, so that choosing among them costs nothing.
    """
    answer, least = None, math.inf
    for number, each in enumerate(attempts, start=1):
        best = each.best
        if best is None or not _certified(certificate := each.certificates[best]):
            continue
        if answer is None or (
            certificate.verdict.estimate <= least
            and answer.finalist is not None
            and _replaces(outlook(best), outlook(answer.finalist), delta)
        ):
            answer = Finish(best, certificate, attempt=number)
            least = certificate.verdict.interval.upper
    return answer


def _replaces(later: Outlook, earlier: Outlook, delta: float) -> bool:
    """Whether it is the better answer: by delta where it has more settings; where it has fewer, it
    may be that much worse.
    """
    more, worth = later.gain - earlier.gain, margin(delta)
    if later.changes == earlier.changes:
        return more >= 0.0
    return more >= (worth if later.changes > earlier.changes else -worth)


def can_narrow(answer: Finish, attempts: Sequence[Attempt], rules: Rules) -> bool:
    """Whether further fresh blocks may tell more of what is certified: its attempt may have more,
    and its gain is not known to within delta, or not every floor is shown.
    """
    if answer.certificate is None or answer.attempt is None:
        return False
    interval = answer.certificate.verdict.interval
    precise = interval.upper - interval.lower <= 2.0 * margin(rules.race.delta)
    floors = all(component.holds for component in answer.certificate.components)
    fresh = len(attempts[answer.attempt - 1].blocks)
    return fresh < rules.certify_blocks and not (precise and floors)


def guards(table: ScoreTable, until: int | None = None) -> tuple[Guard, ...]:
    """Why the differences measured so far may be misleading.

    ``until``: look at the complete blocks up to this place in the table only. What is certified was
    judged by what was known then; to look again at every later block would find some alarm in time.
    """
    differences = table.differences()
    inside = differences.column <= (len(differences.baseline) if until is None else until)
    if not inside.any():
        return ()
    baseline = differences.baseline if until is None else differences.baseline[: until + 1]
    rows, row = np.unique(differences.series[inside], return_inverse=True)
    size = (rows.size, baseline.size)
    series = Series.of_entries(row, differences.column[inside], differences.value[inside], size)
    return watch(series, baseline, twins=differences.pilot[rows])


def guards_due(table: ScoreTable, at_once: int = 1) -> bool:
    """Whether to look at what the guards see: at a block of certification, and before that only at
    10, 20, 40, 80, ... complete blocks, with the last of those ``at_once`` that pass it.

    Each single look errs as rarely as it says. With a look after every block, nearly half of all
    sound campaigns would show a warning that further blocks take back.
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
    """Judge the finalists by the fresh blocks so far, on the terms that the guards leave.

    ``adjustments``: by finalist, fixed before the attempt's first block.

    A warning of skewed or dependent differences, or of two tests that contradict each other, makes
    the claim rest on the sign-flip test too; a refusal leaves no claim at all. A finalist that
    ``failed`` is out, but keeps its share of the error.
    """
    pairs = {f: paired(attempt.blocks, f) for f in attempt.finalists}
    opinions = {f: _second_opinion(pairs[f], rules, attempt.alpha) for f in attempt.finalists}
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
    return Certification(certificates, guards_of_all, _open(certificates, rules))


def single(
    fresh: Sequence[BlockTimes],
    configuration: int,
    rules: Rules,
    watched: Sequence[Guard],
    alpha: float,
) -> tuple[Certificate, tuple[Guard, ...]]:
    """Judge one trial by itself, at its own error, on the terms of ``certification``; with the
    second opinion on its pairs.
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


def _open(certificates: Mapping[int, Certificate], rules: Rules) -> tuple[int, ...]:
    """The finalists worth another block: undecided, and not shown to be no better than another.

    Once a gain worth acting on is ruled out, or one beyond what another is certain to bring, more
    blocks cannot change the advice.
    """
    certain = [c.least_improvement for c in certificates.values() if _certified(c)]
    smallest = max([rules.race.delta, *certain])
    return tuple(
        finalist
        for finalist, c in certificates.items()
        if c.outcome is CertificateOutcome.UNDECIDED and c.largest_compatible_improvement > smallest
    )


def _certified(certificate: Certificate) -> bool:
    return certificate.outcome is CertificateOutcome.CERTIFIED


def _unless_refused(certificate: Certificate, watched: Sequence[Guard]) -> Certificate:
    refusal = next((g.reason for g in watched if g.alarm is Alarm.REFUSE), None)
    if refusal is None or not _certified(certificate):
        return certificate
    reason = f"not certified: {refusal}"
    return replace(certificate, outcome=CertificateOutcome.NOT_CERTIFIED, reason=reason)


def suspect(guards: Sequence[Guard]) -> bool:
    """Whether a guard warns of what hurts the t-type test, so that a certificate needs the
    sign-flip test too.
    """
    return any(g.kind in _HURT_T_TESTS and g.alarm is not Alarm.NONE for g in guards)


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
    """A finalist's fresh pairs: a block that it failed in, or that came later, has none."""
    return [
        PairedTimes(block.times_s[finalist], block.times_s[BASELINE], _covariates(block, finalist))
        for block in fresh
        if finalist in block.times_s
    ]


def _covariates(block: BlockTimes, finalist: int) -> tuple[float, ...]:
    """What others did more while the finalist ran than while the baseline did."""
    own, base = (block.covariates.get(number, ()) for number in (finalist, BASELINE))
    if len(own) != len(COVARIATES) or len(base) != len(COVARIATES):
        return ()
    return tuple(
        math.nan if mine is None or theirs is None else mine - theirs
        for mine, theirs in zip(own, base, strict=True)
    )
