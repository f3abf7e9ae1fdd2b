"""A long campaign is read in pieces; the summary is the same as that of all blocks together."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.campaign.campaigns import Campaign, faster, spec
from tests.unit.campaign.conftest import ON_BOTH, Begin
from tests.unit.campaign.several import several
from tuner.cli.ending import effort_of, stored_end
from tuner.model import BASELINE, BlockKind
from tuner.plan.rules import stored_rules
from tuner.plan.scores import ScoreTable
from tuner.records.numbers import Numbers
from tuner.report.tables import block_counts
from tuner.results import overview as reading
from tuner.results.drift import drift
from tuner.results.overview import overview
from tuner.results.reference_comparison import client_ratios, stored_reference_comparisons
from tuner.results.standing import against_baseline
from tuner.results.testbed_effect import effect_between
from tuner.spec.campaign import CampaignSpec
from tuner.states import BlockState
from tuner.store import Store
from tuner.store.pages import Pages

pytestmark = pytest.mark.slow

REFERENCES = [{"name": "local-disk", "path": "/fstune"}]


def with_references() -> CampaignSpec:
    return spec(faster(), references=REFERENCES)


def check(campaign: Campaign) -> None:
    """Check that the summary of a campaign follows from all of its blocks."""
    store, blocks = campaign.store, campaign.blocks
    row = store.campaign(campaign.id)
    rules = stored_rules(row)
    table = ScoreTable.of(blocks, rules.components, rules.weights)
    started = {b.number: m.started for b in blocks for m in b.measurements if m.trial == BASELINE}
    effect = effect_between(table)
    estimates = against_baseline(table, rules, BlockKind.SEARCH)
    summary = overview(store, row)
    assert summary.numbers == Numbers(
        estimates={trial: estimate for trial, (estimate, _) in estimates.items()},
        fresh=against_baseline(table, rules, BlockKind.CERTIFY),
        drift=[point.ratio for point in drift(table, started)],
        clients=client_ratios(blocks, rules),
        testbeds_differ=effect.reason if effect is not None and effect.shown else "",
    )
    assert set(summary.counts) == set(block_counts(blocks))
    assert list(summary.references) == stored_reference_comparisons(row, blocks)
    measured = sum(len(block.measurements) for block in blocks)
    assert stored_end(store, row).effort == effort_of(campaign.trials, blocks, measured)


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


def test_long_campaigns_are_not_read_in_full(begin: Begin, monkeypatch: pytest.MonkeyPatch) -> None:
    campaign = begin(with_references())
    campaign.run()
    pieces: list[int] = []
    real = Store.blocks

    def blocks(store: Store, *arguments: Any, **options: Any) -> Any:
        piece = real(store, *arguments, **options)
        pieces.append(sum(len(block.measurements) for block in piece))
        return piece

    monkeypatch.setattr(Store, "blocks", blocks)
    monkeypatch.setattr(reading, "_AT_A_TIME", 3)
    monkeypatch.setattr("tuner.store.pages._BLOCKS_AT_ONCE", 3)
    monkeypatch.setattr(reading, "_WHOLE", 2)
    summary = overview(campaign.store, campaign.store.campaign(campaign.id))
    last = Pages(campaign.store).totals(campaign.id).newest_block
    assert [block.number for block in summary.newest] == [last - 1, last]
    # For comparing references, only the arms of the baseline and of the answer's trial are read.
    assert max(pieces) <= 2 * 3
    assert sum(count.blocks for count in summary.counts) == last


def test_a_campaign_that_has_measured_nothing(begin: Begin) -> None:
    campaign = begin(with_references())
    summary = overview(campaign.store, campaign.store.campaign(campaign.id))
    assert (list(summary.counts), list(summary.newest), list(summary.references)) == ([], [], [])
    assert stored_end(campaign.store, campaign.store.campaign(campaign.id)).effort.blocks == 0


@ON_BOTH
def test_ranges_of_blocks_are_read(begin: Begin) -> None:
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
