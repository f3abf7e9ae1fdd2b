"""The end of a search: whom to certify, on which terms, and when to stop. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from tuner.campaign.rules import ALPHA, Rules
from tuner.campaign.scores import ScoreTable
from tuner.judge.certify import Certificate, CertificateOutcome, PairedTimes, certify_several
from tuner.judge.monitors import Alarm, Guard, GuardKind, disagreement, watch
from tuner.judge.score import score_differences
from tuner.judge.series import Series
from tuner.judge.thresholds import threshold
from tuner.model import BASELINE, BlockKind, BlockTimes

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

    def _rank(self, finalist: int) -> tuple[bool, float]:
        certificate = self.certificates[finalist]
        return not _certified(certificate), certificate.verdict.interval.upper


def guards(table: ScoreTable) -> tuple[Guard, ...]:
    """What speaks against taking the differences measured so far at their word."""
    found = table.differences()
    if not found.value.size:
        return ()
    size = (found.pilot.size, found.baseline.size)
    series = Series.of_entries(found.series, found.column, found.value, size)
    return watch(series, found.baseline, twins=found.pilot)


def guards_due(table: ScoreTable, at_once: int = 1) -> bool:
    """Whether to look at what the guards see: at a block of certification, and before that only at
    10, 20, 40, 80, ... complete blocks, with the last of those ``at_once`` that pass it.

    Each look of its own is right as often as it says. Told at every block, warnings that further
    blocks take back would come up in nearly half of all sound campaigns.
    """
    if finalists_begun(table):
        return True
    newest = len(table.scored)
    return any(map(_is_look, range(max(1, newest - at_once + 1), newest + 1)))


def _is_look(blocks: int) -> bool:
    looks, rest = divmod(blocks, _FIRST_LOOK)
    return looks > 0 and rest == 0 and looks.bit_count() == 1


def finalists_begun(table: ScoreTable) -> tuple[int, ...]:
    """The trials whose certification has begun, if it has: they stay the finalists."""
    return tuple(sorted(n for n in table.first_fresh or () if n != BASELINE))


def certification(
    finalists: Sequence[int],
    table: ScoreTable,
    rules: Rules,
    watched: Sequence[Guard],
    failed: Collection[int] = (),
) -> Certification:
    """Judge the finalists by the fresh blocks so far, on the terms that the guards leave.

    A warning of skewed or dependent differences, or of two tests that contradict each other, makes
    the claim rest on the sign-flip test too; a refusal leaves no claim at all. A finalist that
    ``failed`` is out, but keeps its share of the error.
    """
    fresh = [one.block for one in table.scored if one.block.kind is BlockKind.CERTIFY]
    pairs = {f: _pairs(fresh, f) for f in finalists}
    opinions = {f: _second_opinion(pairs[f], rules) for f in finalists}
    suspect = any(_hurts(guard) for guard in watched)
    found = certify_several(
        pairs,
        rules.weights,
        floor=rules.race.floor,
        alpha=ALPHA,
        max_n=rules.certify_blocks,
        resolution_s=rules.race.resolution_s,
        components=rules.components,
        robust=[f for f in finalists if suspect or any(map(_hurts, opinions[f]))],
    )
    refusal = next((g.reason for g in watched if g.alarm is Alarm.REFUSE), None)
    certificates = {
        f: _refused(c, refusal) if refusal is not None and _certified(c) else c
        for f, c in found.items()
        if f not in failed
    }
    known = (*watched, *(guard for f in certificates for guard in opinions[f]))
    return Certification(certificates, known, _open(certificates, rules))


def _open(certificates: Mapping[int, Certificate], rules: Rules) -> tuple[int, ...]:
    """The finalists worth another block: undecided, and not shown to be no better than another.

    Once a gain worth acting on is ruled out, or one beyond what another is certain to bring, more
    blocks cannot change the advice.
    """
    certain = [c.least_improvement for c in certificates.values() if _certified(c)]
    needed = max([rules.race.delta, *certain])
    return tuple(
        finalist
        for finalist, c in certificates.items()
        if c.outcome is CertificateOutcome.UNDECIDED and c.largest_compatible_improvement > needed
    )


def _certified(certificate: Certificate) -> bool:
    return certificate.outcome is CertificateOutcome.CERTIFIED


def _refused(certificate: Certificate, refusal: str) -> Certificate:
    reason = f"not certified: {refusal}"
    return replace(certificate, outcome=CertificateOutcome.NOT_CERTIFIED, reason=reason)


def _hurts(guard: Guard) -> bool:
    return guard.kind in _HURT_T_TESTS and guard.alarm is not Alarm.NONE


def _second_opinion(pairs: Sequence[PairedTimes], rules: Rules) -> tuple[Guard, ...]:
    """Whether the sign-flip test contradicts the t-type one on these pairs."""
    if not pairs:
        return ()
    differences = score_differences(
        [p.candidate_s for p in pairs], [p.baseline_s for p in pairs], rules.weights
    )
    level = threshold(ALPHA, max(rules.certify_blocks, len(pairs)))
    return (disagreement(differences, threshold=level, alpha=ALPHA),)


def _pairs(fresh: Sequence[BlockTimes], finalist: int) -> list[PairedTimes]:
    """The finalist's fresh pairs: a block that it failed in, or that came later, has none."""
    tables = [block.times_s for block in fresh]
    return [PairedTimes(times[finalist], times[BASELINE]) for times in tables if finalist in times]
