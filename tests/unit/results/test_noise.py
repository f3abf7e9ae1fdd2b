"""The noise of a long campaign is computed from its newest blocks, and no others are read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.store_scale.filling import fill
from tuner.model import BlockTimes
from tuner.plan.rules import stored_rules
from tuner.plan.scores import ScoreTable
from tuner.results import noise
from tuner.results.noise import campaign_noise, noise_of
from tuner.store import Store
from tuner.store.pages import Pages


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path) as store:
        yield store


@pytest.mark.slow
@pytest.mark.parametrize("most", [40, 70, 400])
def test_only_the_newest_blocks_are_read(
    store: Store, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    (campaign,) = fill(store, 4, 1)
    rules = stored_rules(store.campaign(campaign))
    blocks = store.block_times(campaign, rules.components)
    assert Pages(store).newest_block(campaign) == len(blocks) == 70
    assert Pages(store).newest_block("no such") == 0
    newest = ScoreTable.of(blocks[-most:], rules.components, rules.weights)
    expected = noise_of(newest, [], rules)
    assert expected is not None
    count, construct = 0, BlockTimes.__init__

    def counted(block: BlockTimes, *values: Any, **columns: Any) -> None:
        nonlocal count
        count += 1
        construct(block, *values, **columns)

    monkeypatch.setattr(BlockTimes, "__init__", counted)
    monkeypatch.setattr(noise, "_MOST_BLOCKS", most)
    assert campaign_noise(store, campaign, rules) == expected
    assert count == min(most, 70)


def test_a_campaign_without_blocks_has_no_noise(store: Store) -> None:
    (campaign,) = fill(store, 1, 1)
    rules = stored_rules(store.campaign(campaign))
    empty = store.create_campaign("empty", "{}", 1, store.campaign(campaign).created).id
    assert campaign_noise(store, empty, rules) is None
