"""Priors for a new campaign from finished ones of the same store: guidance for its search.

A campaign is similar if it tuned the same parts with the same spaces, measured exactly the same
workload, and used the same kind of testbed. Its results are not evidence: another host or version
may behave differently, so every claim rests on new measurements.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tuner.errors import SpecError
from tuner.model import Aspect, Campaign, Prior
from tuner.plan.rules import Rules
from tuner.run.priors import priors
from tuner.spec.campaign import CampaignSpec
from tuner.states import CampaignState
from tuner.store import Store
from tuner.store.pages import Pages

#: Maximum number of newest campaigns with an answer to consider, and of similar ones to use.
_MOST_CAMPAIGNS, _MOST_SIMILAR = 100, 5


def warm_start(
    store: Store,
    spec: CampaignSpec,
    rules: Rules,
    aspects: Mapping[str, Aspect],
    parameters: Collection[str],
) -> tuple[list[Prior], list[str]]:
    """Return the priors of the newest similar campaigns, and the identifiers of those campaigns.

    The newest come first. Empty unless the specification asks for a warm start. ``aspects``: what
    the new campaign measures with; ``parameters``: qualified names.
    """
    if spec.warm_start != "auto" or spec.compare:
        return [], []
    similar: list[Prior] = []
    used: list[str] = []
    for old in Pages(store).with_answer(_MOST_CAMPAIGNS):
        if len(used) == _MOST_SIMILAR:
            break
        if not _similar(store, old, spec, aspects):
            continue
        if of_campaign := priors(store, old.id, rules, parameters):
            used.append(old.id)
            similar += of_campaign
    return similar, used


def _similar(
    store: Store, old: Campaign, spec: CampaignSpec, aspects: Mapping[str, Aspect]
) -> bool:
    if old.state is not CampaignState.FINISHED:
        return False
    try:
        other = CampaignSpec.from_json(old.spec)
    except SpecError:
        return False  # from another release, or of a kind of service that is not installed
    spaces = {part: section.name for part, section in other.spaces.items()}
    earlier = store.measured_with(old.id).get("workload")
    return (
        spaces == {part: section.name for part, section in spec.spaces.items()}
        and other.sections[0].key == spec.sections[0].key
        and earlier is not None
        and earlier.digest == aspects["workload"].digest
    )
