"""What a new campaign may learn from finished ones of the same store: guidance for its search.

A campaign is similar when it tuned the same parts with the same spaces, measured the very same
workload, and was on the same kind of testbed. What it found is evidence for nothing: another host
or another version may be another truth, so every claim rests on new measurements.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tuner.campaign.branching import priors
from tuner.campaign.rules import Rules
from tuner.campaign.spec import CampaignSpec
from tuner.errors import SpecError
from tuner.model import Aspect, Campaign, Configuration, Prior
from tuner.states import CampaignState
from tuner.store import Store
from tuner.store.pages import Pages

#: The newest campaigns with an answer that are looked at, and the similar ones that are used.
_MOST_CAMPAIGNS, _MOST_SIMILAR = 100, 5


def warm_start(
    store: Store,
    spec: CampaignSpec,
    rules: Rules,
    aspects: Mapping[str, Aspect],
    parameters: Collection[str],
) -> tuple[list[Prior], list[str]]:
    """The priors of the newest similar campaigns, and those campaigns; of a configuration that
    several have measured, the newest counts. Nothing unless the specification asks for it.

    ``aspects``: what the new campaign measures with; ``parameters``: qualified names.
    """
    if spec.warm_start != "auto" or spec.compare:
        return [], []
    newest: dict[Configuration, Prior] = {}
    used: list[str] = []
    for old in Pages(store).with_answer(_MOST_CAMPAIGNS):
        if len(used) == _MOST_SIMILAR:
            break
        if not _similar(store, old, spec, aspects):
            continue
        trials, blocks = store.trials(old.id), store.blocks(old.id)
        if of_campaign := priors(old.id, trials, blocks, rules, parameters):
            used.append(old.id)
            for prior in of_campaign:
                newest.setdefault(prior.configuration, prior)
    return list(newest.values()), used


def _similar(
    store: Store, old: Campaign, spec: CampaignSpec, aspects: Mapping[str, Aspect]
) -> bool:
    if old.state is not CampaignState.FINISHED:
        return False
    try:
        other = CampaignSpec.from_json(old.spec)
    except SpecError:
        return False  # of another release, or of a kind of service that is not installed
    spaces = {part: section.name for part, section in other.spaces.items()}
    earlier = store.measured_with(old.id).get("workload")
    return (
        spaces == {part: section.name for part, section in spec.spaces.items()}
        and other.places[0].key == spec.places[0].key
        and earlier is not None
        and earlier.digest == aspects["workload"].digest
    )
