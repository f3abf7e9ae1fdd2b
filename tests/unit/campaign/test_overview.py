"""A long campaign is told of in pieces: what is told is what all of its blocks together say."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.campaign.campaigns import Campaign, faster, spec
from tests.unit.campaign.conftest import ON_BOTH, Begin
from tests.unit.campaign.test_several import several
from tuner.campaign import overview as reading
from tuner.campaign.comparing import client_ratios, stored_comparisons
from tuner.campaign.drift import drift
from tuner.campaign.equivalence import effect_between
from tuner.campaign.overview import Numbers, overview
from tuner.campaign.rules import stored_rules
from tuner.campaign.scores import ScoreTable
from tuner.campaign.spec import CampaignSpec
from tuner.campaign.standing import against_baseline
from tuner.cli.ending import effort_of, stored_end
from tuner.model import BASELINE, BlockKind
from tuner.report.tables import block_counts
from tuner.states import BlockState
from tuner.store import Store
from tuner.store.pages import Pages

pytestmark = pytest.mark.slow

REFERENCES = [{"name": "local-disk", "path": "/fstune"}]


def with_references() -> CampaignSpec:
    return spec(faster(), references=REFERENCES)


def check(campaign: Campaign) -> None:
    """Whether what is told of a campaign is what follows from all of its blocks."""
    store, blocks = campaign.store, campaign.blocks
    stored = store.campaign(campaign.id)
    rules = stored_rules(stored)
    table = ScoreTable.of(blocks, rules.components, rules.weights)
    started = {b.number: m.started for b in blocks for m in b.measurements if m.trial == BASELINE}
    effect = effect_between(table)
    known = against_baseline(table, rules, BlockKind.SEARCH)
    told = overview(store, stored)
    assert told.numbers == Numbers(
        estimates={trial: estimate for trial, (estimate, _) in known.items()},
        drift=[point.ratio for point in drift(table, started)],
        clients=client_ratios(blocks, rules),
        testbeds_differ=effect.reason if effect is not None and effect.shown else "",
    )
    assert set(told.counts) == set(block_counts(blocks))
    assert list(told.references) == stored_comparisons(stored, blocks)
    measured = sum(len(block.measurements) for block in blocks)
    assert stored_end(store, stored).effort == effort_of(campaign.trials, blocks, measured)


@ON_BOTH
def test_in_pieces_as_in_one(begin: Begin, monkeypatch: pytest.MonkeyPatch) -> None:
    campaigns = [begin(described) for described in (with_references(), several(faster()))]
    for campaign in campaigns:
        assert campaign.run().error is None
    for at_a_time in (1, 7, 2000):
        monkeypatch.setattr(reading, "_AT_A_TIME", at_a_time)
        for campaign in campaigns:
            check(campaign)
    assert overview(campaigns[0].store, campaigns[0].store.campaign(campaigns[0].id)).references


def test_nothing_large_is_read_whole(begin: Begin, monkeypatch: pytest.MonkeyPatch) -> None:
    campaign = begin(with_references())
    campaign.run()
    pieces: list[int] = []
    real = Store.blocks

    def blocks(store: Store, *arguments: Any, **options: Any) -> Any:
        found = real(store, *arguments, **options)
        pieces.append(sum(len(block.measurements) for block in found))
        return found

    monkeypatch.setattr(Store, "blocks", blocks)
    monkeypatch.setattr(reading, "_AT_A_TIME", 3)
    monkeypatch.setattr(reading, "_WHOLE", 2)
    told = overview(campaign.store, campaign.store.campaign(campaign.id))
    last = Pages(campaign.store).totals(campaign.id).newest_block
    assert [block.number for block in told.newest] == [last - 1, last]
    # Of the blocks that references are compared in, the baseline and the answer's trial alone.
    assert max(pieces) <= 2 * 3
    assert sum(count.blocks for count in told.counts) == last


def test_a_campaign_that_has_measured_nothing(begin: Begin) -> None:
    campaign = begin(with_references())
    told = overview(campaign.store, campaign.store.campaign(campaign.id))
    assert (list(told.counts), list(told.newest), list(told.references)) == ([], [], [])
    assert stored_end(campaign.store, campaign.store.campaign(campaign.id)).effort.blocks == 0


@ON_BOTH
def test_blocks_are_read_from_here_to_there(begin: Begin) -> None:
    campaign = begin(with_references())
    campaign.run()
    store, every = campaign.store, campaign.blocks
    assert len(every) > 4
    assert store.blocks(campaign.id, 1, 2) == every[1:3]
    assert store.blocks(campaign.id, len(every) - 1, 10) == every[-1:]
    assert store.blocks(campaign.id, most=0) == []
    some = store.blocks(campaign.id, trials={BASELINE})
    assert [block.references for block in some] == [block.references for block in every]
    for block, whole in zip(some, every, strict=True):
        assert block.measurements == tuple(m for m in whole.measurements if m.trial == BASELINE)
        assert whole.state is BlockState.COMPLETE
