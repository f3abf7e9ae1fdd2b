"""Summary of a stored campaign, with bounded memory.

Only the newest blocks are read in full. Of all others only the times are read, in pieces, since the
rows take several times as much memory as the scores.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tuner.errors import SpecError
from tuner.model import BASELINE, Block, BlockCount, BlockKind, Campaign
from tuner.plan.rules import MeasuredWith, Rules, stored_rules
from tuner.plan.scores import ScoreTable
from tuner.records.comparison import Comparison
from tuner.records.numbers import Numbers
from tuner.results.drift import drift
from tuner.results.reference_comparison import client_ratios, stored_reference_comparisons
from tuner.results.standing import against_baseline
from tuner.results.testbed_effect import effect_between
from tuner.store import Store
from tuner.store.pages import Pages

#: Number of blocks read at a time.
_AT_A_TIME = 2000
#: Number of newest blocks that are read in full.
_WHOLE = 1000


@dataclass(frozen=True, slots=True)
class Overview:
    """A campaign to be shown. ``counts``: of all blocks; ``newest``: the newest blocks, in full."""

    counts: Sequence[BlockCount]
    newest: Sequence[Block]
    numbers: Numbers
    references: Sequence[Comparison]


def overview(store: Store, campaign: Campaign) -> Overview:
    """Return the summary of a stored campaign."""
    pages = Pages(store)
    last = pages.totals(campaign.id).newest_block
    newest = store.blocks(campaign.id, max(0, last - _WHOLE))
    try:
        numbers = _numbers(store, campaign, stored_rules(campaign), newest)
    except SpecError:
        numbers = Numbers()  # its workload file is gone or has changed
    counts, references = pages.block_counts(campaign.id), reference_comparisons(store, campaign)
    return Overview(counts, newest, numbers, references)


def reference_comparisons(
    store: Store, campaign: Campaign, measured_with: MeasuredWith | None = None
) -> list[Comparison]:
    """Compare the tuned service of a stored campaign with its references; empty if it has none, or
    if its workload file is gone or has changed. ``measured_with``: see ``stored_rules``.
    """
    if not Pages(store).has_references(campaign.id):
        return []
    answer = campaign.recommendation
    trials = {BASELINE} if answer is None else {BASELINE, answer.trial}
    blocks = Pages(store).whole_blocks(campaign.id, trials)
    return stored_reference_comparisons(campaign, blocks, measured_with)


def read_on(table: ScoreTable, store: Store, campaign: str) -> None:
    """Add newly ended blocks to a table. Raises OtherComponentsError if they have others."""
    more = True
    while more:
        before = table.newest
        table.extend(
            store.block_times(
                campaign,
                table.components,
                before,
                _AT_A_TIME,
                with_covariates=table.keeps_times,
            )
        )
        more = table.newest == before + _AT_A_TIME


def _numbers(store: Store, campaign: Campaign, rules: Rules, newest: Sequence[Block]) -> Numbers:
    table = ScoreTable(rules.components, rules.weights, keep_times=False)
    read_on(table, store, campaign.id)
    started = Pages(store).baseline_started(campaign.id)
    rows = against_baseline(table, rules, BlockKind.SEARCH)
    effect = effect_between(table)
    return Numbers(
        estimates={trial: estimate for trial, (estimate, _) in rows.items()},
        fresh=against_baseline(table, rules, BlockKind.CERTIFY),
        drift=[point.ratio for point in drift(table, started)],
        clients=client_ratios(newest, rules),
        testbeds_differ=effect.reason if effect is not None and effect.shown else "",
    )
