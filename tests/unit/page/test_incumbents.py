"""Which trial is the incumbent after which block, by the events of a campaign."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from tests.unit.report.samples import NO_FINALIST, RECOMMENDED
from tuner.model import BASELINE, Event, Recommendation
from tuner.page.incumbents import MOVES, Incumbents

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def after(*moves: tuple[str, int | None], answer: Recommendation | None = None) -> int:
    incumbents = Incumbents()
    for number, (kind, trial) in enumerate(moves, start=1):
        assert kind in MOVES
        data = {} if trial is None else {"trial": trial}
        if incumbents.follow(Event(number, NOW, kind, "", data), answer):
            incumbents.add(number)
    return incumbents.now


@pytest.mark.parametrize(
    ("moves", "incumbent"),
    [
        ([("trial-promoted", 2)], 2),
        ([("trial-promoted", 2), ("trial-pruned", 3)], 2),
        ([("trial-promoted", 2), ("trial-pruned", 2)], BASELINE),
        # Nothing was promoted before the certificate, or another trial after it.
        ([("certified", 6)], 6),
        ([("certified", 6), ("trial-promoted", 2)], 6),
        ([("certified", 6), ("certified", 8)], 8),
        # Its part in the search may end; only its failure ends a certificate.
        ([("certified", 6), ("trial-pruned", 6)], 6),
        ([("trial-promoted", 2), ("certified", 6), ("trial-failed", 6)], 2),
        ([("trial-promoted", 2), ("certified", 6), ("withdrawn", 6)], 2),
        ([("certified", 6), ("withdrawn", 6)], BASELINE),
    ],
)
def test_a_certified_trial_leads_as_long_as_its_certificate_stands(
    moves: list[tuple[str, int | None]], incumbent: int
) -> None:
    assert after(*moves) == incumbent


def test_the_last_word_is_the_answer() -> None:
    moves = [("certified", 6), ("recommendation", None)]
    assert after(*moves, answer=RECOMMENDED) == RECOMMENDED.trial
    assert after(*moves, answer=NO_FINALIST) == BASELINE
    assert after(*moves, answer=replace(NO_FINALIST, trial=6)) == BASELINE
