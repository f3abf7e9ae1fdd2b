"""The priors of a campaign, relative to its own baseline.

A prior is a difference to the baseline of the campaign that measured it. If its recommendation has
been applied since, the configuration found on the testbed is a different one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tuner.errors import NotFoundError
from tuner.model import BASELINE, Configuration, Prior
from tuner.store import Store


def stored_priors(store: Store, campaign: str, baseline: Configuration) -> list[Prior]:
    """Return the results of earlier campaigns, as differences to this campaign's ``baseline``."""
    priors = store.priors(campaign)
    baselines: dict[str, Configuration] = {}
    # Only campaigns of earlier versions lack the baseline that belongs to their priors.
    complete = {_campaign(prior) for prior in priors if prior.is_baseline}
    for earlier in {_campaign(prior) for prior in priors} - complete:
        try:
            trials = store.trials(earlier)
        except NotFoundError:
            continue
        if trials:
            baselines[earlier] = trials[BASELINE].configuration
    return compared_with(baseline, priors, baselines)


def compared_with(
    baseline: Configuration, priors: Sequence[Prior], baselines: Mapping[str, Configuration]
) -> list[Prior]:
    """Convert priors to differences to ``baseline``.

    Leaves out those of campaigns that never measured it, and the baseline itself. If several have
    measured a configuration, the first counts. ``baselines``: of earlier campaigns whose priors do
    not include their own, by identifier.
    """
    shifts = {
        earlier: 0.0
        for earlier, earlier_baseline in baselines.items()
        if earlier_baseline == baseline
    }
    for prior in priors:
        if prior.configuration == baseline:
            shifts.setdefault(_campaign(prior), prior.difference)
    usable: dict[Configuration, Prior] = {}
    for prior in priors:
        if _campaign(prior) in shifts and prior.configuration != baseline:
            difference = prior.difference - shifts[_campaign(prior)]
            usable.setdefault(prior.configuration, replace(prior, difference=difference))
    return list(usable.values())


def _campaign(prior: Prior) -> str:
    return prior.origin.rpartition(":")[0]
