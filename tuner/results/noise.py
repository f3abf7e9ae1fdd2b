"""How much each measure against noise helped in a stored campaign.

``tuner.judge.noise`` has the arithmetic; this module provides its input.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from tuner.judge.adjustment import fit_adjustment
from tuner.judge.noise import noise_report
from tuner.judge.noise_records import NoiseReport
from tuner.model import BlockKind, Event
from tuner.plan.rules import Rules
from tuner.plan.scores import ScoreTable
from tuner.states import EventKind
from tuner.store import Store
from tuner.store.pages import Pages

#: Maximum number of blocks. Only the newest are used, since the behaviour of a machine changes.
_MOST_BLOCKS = 400


def campaign_noise(store: Store, campaign: str, rules: Rules) -> NoiseReport | None:
    """Return how much the measures helped in the newest blocks; None if too little was repeated to
    tell.

    Raises OtherComponentsError if these blocks measured others than ``rules`` name.
    """
    after = max(0, Pages(store).newest_block(campaign) - _MOST_BLOCKS)
    blocks = store.block_times(campaign, rules.components, after, _MOST_BLOCKS)
    events = store.events(campaign, kinds=[EventKind.MEASURED_AGAIN])
    return noise_of(ScoreTable.of(blocks, rules.components, rules.weights), events, rules)


def noise_of(table: ScoreTable, events: Iterable[Event], rules: Rules) -> NoiseReport | None:
    """Return the same for a table that keeps times. ``events``: of arms measured again."""
    first: dict[tuple[object, object], list[float]] = {}
    for event in events:
        times = [event.data.get(f"first_{name}_s") for name in rules.components]
        logs_of_arm = [math.log(t) for t in times if isinstance(t, int | float) and t > 0.0]
        if len(logs_of_arm) == len(times):
            # If an arm was measured again twice, the first time counts.
            first.setdefault((event.data.get("block"), event.data.get("trial")), logs_of_arm)
    arms = [
        (trial, index, [math.log(t) for t in times], (one.block.number, trial))
        for index, one in enumerate(table.scored)
        for trial, times in one.block.times_s.items()
    ]
    if not arms:
        return None
    trials, indices, logs, keys = zip(*arms, strict=True)
    before = [first.get(key, own) for key, own in zip(keys, logs, strict=True)]
    adjustment = fit_adjustment(
        table.observations(tuple(BlockKind)),
        rules.weights,
        components=rules.components,
        seed=rules.seed,
    )
    return noise_report(
        np.array(trials, np.int64),
        np.array(indices, np.int64),
        np.array(logs, np.float64),
        np.array(before, np.float64),
        rules.weights,
        adjustment,
    )
