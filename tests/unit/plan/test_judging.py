"""The state of an attempt: which certificates survive further fresh blocks."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

import pytest

from tests.unit.plan.histories import COMPONENTS, measurement, rules
from tuner.judge.assumptions import Alarm, Guard, GuardKind
from tuner.judge.certify import CertificateOutcome
from tuner.model import BASELINE, Block, BlockKind
from tuner.plan.attempts import attempts
from tuner.plan.certifying import Certification, certification
from tuner.plan.judging import Judge
from tuner.plan.rules import Rules
from tuner.plan.scores import ScoreTable
from tuner.states import BlockState

RULES = rules(certify_blocks=60)
#: Ratios of a trial's times to the baseline's, by component.
FAST, SAME, SPOILT, OPEN = (0.8, 0.8), (1.0, 1.0), (0.8, 1.35), (0.7, 1.05)


def table_of(parts: Sequence[tuple[int, Mapping[int, tuple[float, ...]]]]) -> ScoreTable:
    """An attempt with these fresh blocks: how many, with which trials and ratios."""
    draw = random.Random(1)
    blocks: list[Block] = []
    for count, ratios in parts:
        for _ in range(count):
            arms = {BASELINE: SAME, **ratios}
            measured = tuple(
                measurement(n, place, tuple(r * draw.lognormvariate(0.0, 0.01) for r in each))
                for place, (n, each) in enumerate(arms.items())
            )
            number, complete = len(blocks) + 1, BlockState.COMPLETE
            blocks.append(Block(number, BlockKind.CERTIFY, 1, tuple(arms), complete, measured))
    return ScoreTable.of(blocks, COMPONENTS, RULES.weights)


def standing(
    parts: Sequence[tuple[int, Mapping[int, tuple[float, ...]]]], of: Rules = RULES
) -> Certification:
    """Judge an attempt with these fresh blocks."""
    table = table_of(parts)
    (attempt,) = attempts(table.ended_blocks)
    return Judge(table).standing(attempt, of, ())


@pytest.mark.parametrize("others", [{}, {2: SAME}])
def test_a_certificate_that_further_blocks_contradict_does_not_survive(
    others: Mapping[int, tuple[float, ...]],
) -> None:
    first = (4, {1: FAST, **others})
    assert standing([first]).certificates[1].outcome is CertificateOutcome.CERTIFIED
    later = standing([first, (30, {1: SPOILT})])
    assert later.certificates[1].outcome is CertificateOutcome.NOT_CERTIFIED
    assert later.certificates[1].components[1].broken
    assert later.certificates[1].verdict.n == 34
    # The other one may be certified now that nothing better is.
    assert later.open == tuple(others)


def test_a_certificate_that_is_left_open_survives_beside_another_finalist() -> None:
    certified, middling = CertificateOutcome.CERTIFIED, (0.97, 0.97)
    together = (4, {1: FAST, 2: middling})
    later = standing([together, (12, {1: (1.2, 1.0), 2: middling})])
    assert {f: c.outcome for f, c in later.certificates.items()} == {1: certified, 2: certified}
    # The error that the first certificate released helped the second one in its block.
    assert [later.certificates[f].verdict.n for f in (1, 2)] == [4, 6]
    assert {f: c.verdict.n for f, c in later.latest.items()} == {1: 16, 2: 16}
    assert certified not in [each.outcome for each in later.latest.values()]


@pytest.mark.parametrize(
    ("ratios", "outcome"),
    [(FAST, CertificateOutcome.NOT_CERTIFIED), (OPEN, CertificateOutcome.UNDECIDED)],
)
def test_what_forbids_a_claim_is_named_also_beside_an_open_floor(
    ratios: tuple[float, ...], outcome: CertificateOutcome
) -> None:
    table = table_of([(16, {1: ratios})])
    (attempt,) = attempts(table.ended_blocks)
    guard = Guard(GuardKind.DEPENDENCE, Alarm.REFUSE, 1.0, 9.0, 40, "they depend on each other")
    certificate = certification(attempt, RULES, [guard]).certificates[1]
    assert (certificate.outcome, certificate.doubt) == (outcome, guard.reason)
