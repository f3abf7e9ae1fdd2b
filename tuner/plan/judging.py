"""Which certificates stand, and which are withdrawn, judged from the blocks so far. Pure.

Caches what is known of each attempt, so that no plan computes it twice: the guards at a block, the
adjustment of a finalist, and when an attempt was first certified.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace

from tuner.judge.adjustment import DifferenceAdjustment, fit_adjustment
from tuner.judge.assumptions import Guard
from tuner.judge.evalue import MIN_PAIRS
from tuner.model import BlockKind
from tuner.plan.attempts import Attempt
from tuner.plan.certifying import (
    Certification,
    certification,
    guards,
    open_finalists,
    spoilt,
)
from tuner.plan.rules import Rules
from tuner.plan.scores import ScoreTable


@dataclass(slots=True)
class Judge:
    """Judges the attempts of one campaign.

    ``table``: grows with the campaign's blocks. The caches follow from the blocks alone: a new
    judge computes the same.
    """

    table: ScoreTable
    #: By attempt and finalist. An adjustment does not depend on anything later.
    _adjustments: dict[tuple[int, int], DifferenceAdjustment] = field(default_factory=dict)
    #: By the number of the newest block of an attempt.
    _guards_at: dict[int, tuple[Guard, ...]] = field(default_factory=dict)
    #: By attempt: the number of fresh blocks checked, and the number at which each finalist was
    #: first certified.
    _certified_at: dict[int, tuple[int, dict[int, int]]] = field(default_factory=dict)

    def standing(self, attempt: Attempt, rules: Rules, failed: Collection[int]) -> Certification:
        """Return the state of an attempt. ``failed``: trials that do not run.

        A finalist's certificate survives if further blocks merely leave the question open again,
        because its error holds for all looks together. It does not survive if they contradict it.
        """
        now = self._certification(attempt, rules, failed)
        states = {f: self._state_of(f, now, attempt, rules, failed) for f in now.certificates}
        certificates = {f: state.certificates[f] for f, state in states.items()}
        still_open = open_finalists(certificates, rules)
        latest = {f: now.certificates[f] for f, state in states.items() if state is not now}
        merged = Certification(certificates, now.guards, still_open, now.adjustments, latest)
        # A certificate is judged by what was known at its block.
        return merged if merged.best is None else replace(merged, guards=states[merged.best].guards)

    def first_certified(self, attempt: Attempt, rules: Rules) -> dict[int, int]:
        """Return after how many fresh blocks each finalist was first certified, if it ever was."""
        last, first = self._certified_at.get(attempt.number, (MIN_PAIRS - 1, {}))
        for blocks in range(last + 1, len(attempt.blocks) + 1):
            if len(first) == len(attempt.finalists):
                break
            state = self._certification(_cut(attempt, blocks), rules)
            for finalist, certificate in state.certificates.items():
                if certificate.is_certified:
                    first.setdefault(finalist, blocks)
        self._certified_at[attempt.number] = len(attempt.blocks), first
        return first

    def _state_of(
        self,
        finalist: int,
        now: Certification,
        attempt: Attempt,
        rules: Rules,
        failed: Collection[int],
    ) -> Certification:
        """The state of the attempt that has the certificate of a finalist: that of now, or that of
        the block at which it was first certified.
        """
        certificate = now.certificates[finalist]
        if certificate.is_certified or spoilt(certificate):
            return now
        blocks = self.first_certified(attempt, rules).get(finalist)
        if blocks is None:
            return now
        return self._certification(_cut(attempt, blocks), rules, failed)

    def _adjustment(self, attempt: Attempt, finalist: int, rules: Rules) -> DifferenceAdjustment:
        """The adjustment of a finalist's fresh differences, fitted to what preceded them."""
        key = attempt.number, finalist
        if key not in self._adjustments:
            observations = self.table.observations((BlockKind.PILOT, BlockKind.SEARCH))
            numbers = [one.block.number for one in self.table.scored]
            first = next((n for n, block in enumerate(numbers) if block >= attempt.first), None)
            before = observations.only(
                observations.block < (len(numbers) if first is None else first)
            )
            self._adjustments[key] = fit_adjustment(
                before,
                rules.weights,
                components=rules.components,
                finalist=finalist,
                seed=rules.seed,
            ).score
        return self._adjustments[key]

    def _certification(
        self, attempt: Attempt, rules: Rules, failed: Collection[int] = ()
    ) -> Certification:
        adjustments = None
        if rules.adjust:
            adjustments = {n: self._adjustment(attempt, n, rules) for n in attempt.finalists}
        return certification(attempt, rules, self._watched(attempt), failed, adjustments)

    def _watched(self, attempt: Attempt) -> tuple[Guard, ...]:
        """The guards as of the newest block of the attempt."""
        if not attempt.blocks:
            return ()
        newest = attempt.blocks[-1].number
        if newest not in self._guards_at:
            numbers = [one.block.number for one in self.table.scored]
            self._guards_at[newest] = guards(self.table, numbers.index(newest))
        return self._guards_at[newest]


def _cut(attempt: Attempt, blocks: int) -> Attempt:
    """The attempt as it was after its first ``blocks`` fresh blocks."""
    return replace(attempt, blocks=attempt.blocks[:blocks])
