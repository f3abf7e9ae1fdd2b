"""Campaigns that recommend a configuration chosen by a test, stored without measuring anything."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from tuner.compose import look_up
from tuner.model import Answer, Campaign, Configuration, Recommendation, Trial, Value
from tuner.spec.campaign import CampaignSpec
from tuner.states import CampaignState, TrialState
from tuner.store import NewEvent, Store


def specification(testbed: Mapping[str, object]) -> CampaignSpec:
    """Return a campaign with a fileserver and a cache manager on this testbed."""
    return CampaignSpec.model_validate(
        {
            "name": "on a testbed",
            "testbed": testbed,
            "spaces": {
                "fileserver": {"name": "openafs-fileserver-1.8"},
                "cache_manager": {"name": "openafs-cache-manager-fuse-1.8"},
            },
            "workload": "mixed-use",
        }
    )


def recommending(
    store: Store,
    spec: CampaignSpec,
    baseline: Mapping[str, Value],
    candidate: Mapping[str, Value],
    answer: Answer = Answer.RECOMMENDED,
    *,
    state: CampaignState = CampaignState.FINISHED,
) -> Campaign:
    """Store a campaign in this state that recommends a configuration, as at least 5% faster."""
    spaces = look_up(spec).spaces

    def flags(configuration: Configuration) -> dict[str, tuple[str, ...]]:
        return {p: tuple(s.render(configuration.part(p))) for p, s in spaces.items()}

    now = datetime.now(UTC)
    old, new = Configuration.of(baseline), Configuration.of(candidate)
    campaign = store.create_campaign(spec.name, spec.to_json(), spec.seed, now).id
    event = NewEvent(now, "told", "told by a test")
    store.move_campaign(campaign, CampaignState.RUNNING, "", event)
    store.set_baseline(campaign, old, event)
    for number, configuration in enumerate((old, new)):
        trial = Trial(number, configuration, number, "a test", TrialState.RUNNING, flags(new))
        store.add_trials(campaign, [(trial, event)])
    recommendation = Recommendation(
        answer=answer,
        reason="a test says so",
        trial=1,
        configuration=new,
        baseline=old,
        flags=flags(new),
        baseline_flags=flags(old),
        confidence=0.97,
        blocks=12,
        ratio=0.9,
        lower=0.85,
        upper=0.95,
    )
    store.save_recommendation(campaign, recommendation, event)
    if state is not CampaignState.RUNNING:
        store.move_campaign(campaign, state, "", event)
    return store.campaign(campaign)
