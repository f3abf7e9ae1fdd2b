"""The standing of a campaign, from its rows alone."""

from __future__ import annotations

from datetime import UTC, datetime

from tuner.model import Block, BlockKind, Configuration, Event, Trial
from tuner.records.estimate import Estimate
from tuner.report.standing import how_many
from tuner.results.external_standing import incumbent_after, outside_standing
from tuner.states import BlockState, TrialState

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def trial(number: int, state: TrialState = TrialState.RUNNING) -> Trial:
    threads = Configuration.of({"fileserver.threads": number} if number else {})
    return Trial(number, threads, 1, "random", state, reason="too slow")


def event(number: int, kind: str, about: int) -> Event:
    return Event(number, NOW, kind, "", {"trial": about})


def test_the_rows_are_the_arms_of_the_last_block_the_incumbent_first() -> None:
    last = Block(7, BlockKind.SEARCH, 2, (3, 0, 1), BlockState.RUNNING)
    trials = [trial(0), trial(1), trial(2, TrialState.PRUNED), trial(3)]
    estimate = Estimate(0.9, 0.8, 1.0)
    standing = outside_standing(
        trials, last, {3: (estimate, 4)}, incumbent=3, measurements=12, elapsed_s=5.0, blocks=6
    )
    assert [(r.trial, r.state, r.blocks, r.changes) for r in standing.rows] == [
        (0, "reference", 6, ""),
        (3, "incumbent", 4, "threads=3"),
        (1, "racing", 0, "threads=1"),
    ]
    assert standing.rows[1].estimate == estimate
    assert [(d.trial, d.reason) for d in standing.dropped] == [(2, "too slow")]
    assert (standing.block, how_many(standing)) == (7, "12 measurements")


def test_the_incumbent_is_the_one_promoted_last_that_is_still_in() -> None:
    events = [event(1, "trial-promoted", 1), event(2, "trial-promoted", 3)]
    assert incumbent_after(events) == 3
    assert incumbent_after([event(3, "trial-pruned", 1)], 3) == 3
    assert incumbent_after([event(3, "trial-pruned", 3)], 3) == 0
