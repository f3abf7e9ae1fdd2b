"""The standing of a campaign, from its rows alone."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tests.unit.plan.histories import rules
from tuner.model import Block, BlockKind, Configuration, Event, Trial
from tuner.plan.scores import ScoreTable
from tuner.plan.steps import Explore, Phase, Plan
from tuner.records.estimate import Estimate
from tuner.report.standing import how_many
from tuner.results.external_standing import incumbent_after, outside_standing
from tuner.results.standing import standing
from tuner.states import BlockState, TrialState
from tuner.time_use import TimeUse

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
    outside = outside_standing(
        trials, last, {3: (estimate, 4)}, incumbent=3, measurements=12, elapsed_s=5.0, blocks=6
    )
    assert [(r.trial, r.state, r.blocks, r.changes) for r in outside.rows] == [
        (0, "baseline", 6, ""),
        (3, "incumbent", 4, "threads=3"),
        (1, "racing", 0, "threads=1"),
    ]
    assert outside.rows[1].estimate == estimate
    assert [(d.trial, d.reason) for d in outside.dropped] == [(2, "too slow")]
    assert (outside.block, how_many(outside)) == (7, "12 measurements")


@pytest.mark.parametrize(
    ("phase", "kind"),
    [
        (Phase.PILOT, BlockKind.PILOT),
        (Phase.SEARCH, BlockKind.SEARCH),
        (Phase.CERTIFY, BlockKind.CERTIFY),
    ],
)
def test_inside_and_outside_have_the_same_words(phase: Phase, kind: BlockKind) -> None:
    trials = [trial(0), trial(1), trial(2)]
    plan = Plan(Explore(1, 1, kind, ()), phase, 1, 1, (1, 2), {}, ())
    table = ScoreTable(rules().components, rules().weights)
    inside = standing(trials, table, plan, rules(), TimeUse())
    last = Block(1, kind, 1, (0, 1, 2), BlockState.RUNNING)
    outside = outside_standing(trials, last, {}, incumbent=1, measurements=0, elapsed_s=0.0)
    assert [(r.trial, r.state) for r in inside.rows] == [(r.trial, r.state) for r in outside.rows]


def test_the_incumbent_is_the_one_promoted_last_that_is_still_in() -> None:
    events = [event(1, "trial-promoted", 1), event(2, "trial-promoted", 3)]
    assert incumbent_after(events) == 3
    assert incumbent_after([event(3, "trial-pruned", 1)], 3) == 3
    assert incumbent_after([event(3, "trial-pruned", 3)], 3) == 0
