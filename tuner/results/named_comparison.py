"""The comparison made by a stored campaign, computed from its blocks."""

from __future__ import annotations

from collections.abc import Sequence

from tuner.errors import SpecError
from tuner.model import Campaign, Trial
from tuner.plan.named_comparison import ORIGIN, comparison
from tuner.plan.rules import stored_rules
from tuner.plan.scores import ScoreTable
from tuner.records.named_comparison import NamedComparison
from tuner.store import Store


def stored_comparison(
    store: Store, campaign: Campaign, trials: Sequence[Trial] | None = None
) -> NamedComparison | None:
    """Return the results so far of a campaign that compares given configurations; None for one that
    searches, or if its workload file is gone or has changed.
    """
    rows = store.trials(campaign.id) if trials is None else trials
    if not any(trial.origin.startswith(ORIGIN) for trial in rows):
        return None
    try:
        rules = stored_rules(campaign)
        blocks = store.block_times(campaign.id, rules.components)
    except SpecError:
        return None
    return comparison(rows, ScoreTable.of(blocks, rules.components, rules.weights), rules)
