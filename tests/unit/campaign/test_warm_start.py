"""Which earlier campaigns guide a new one, and that nothing more than guidance comes of them."""

from __future__ import annotations

import pytest

from tests.unit.campaign.campaigns import Campaign, faster, spec
from tests.unit.campaign.conftest import Begin
from tuner.campaign.rules import rules_of
from tuner.campaign.spec import CampaignSpec
from tuner.campaign.warm_start import warm_start
from tuner.model import Prior
from tuner.states import CampaignState

pytestmark = pytest.mark.slow

AUTO = {"warm_start": "auto"}


@pytest.fixture
def earlier(finished: Campaign) -> Campaign:
    """Return a finished campaign."""
    return finished


def guided(earlier: Campaign, new: CampaignSpec) -> tuple[list[Prior], list[str]]:
    prepared = Campaign(earlier.store, new, earlier.directory).prepared()
    rules = rules_of(prepared.spec, prepared.workload)
    return warm_start(earlier.store, prepared.spec, rules, prepared.aspects, prepared.parameters)


def test_a_similar_campaign_guides_if_it_is_asked_for(earlier: Campaign) -> None:
    found, used = guided(earlier, spec(**AUTO))  # type: ignore[arg-type]
    assert used == [earlier.id]
    assert found
    assert all(prior.origin.startswith(f"{earlier.id}:") for prior in found)
    assert guided(earlier, spec()) == ([], [])


def test_the_newest_counts_for_what_several_have_measured(earlier: Campaign, begin: Begin) -> None:
    again = begin(spec(faster(-0.3)))
    assert again.run().campaign.state is CampaignState.FINISHED
    found, used = guided(earlier, spec(**AUTO))  # type: ignore[arg-type]
    assert used == [again.id, earlier.id]
    configurations = [prior.configuration for prior in found]
    assert len(set(configurations)) == len(configurations)
    both = {t.configuration for t in again.trials} & {t.configuration for t in earlier.trials}
    shared = [prior for prior in found if prior.configuration in both]
    assert shared
    assert all(prior.origin.startswith(again.id) for prior in shared)


@pytest.mark.parametrize(
    "sections",
    [
        {"workload": "varmail"},
        {"workload": {"name": "mixed-use", "scale": 0.5}},
        {"spaces": {"cache_manager": "openafs-cache-manager-fuse-1.8"}, "first": []},
        {"testbed": {"cell": {"name": "other"}}, "first": []},
        {
            "first": [],
            "compare": {"x": {"fileserver": {"threads": 64}}},
        },
    ],
    ids=["workload", "scale", "parts", "testbed", "comparison"],
)
def test_what_is_not_similar_guides_nothing(earlier: Campaign, sections: dict[str, object]) -> None:
    assert guided(earlier, spec(**(sections | AUTO))) == ([], [])  # type: ignore[arg-type]


def test_a_campaign_that_has_not_finished_guides_nothing(begin: Begin) -> None:
    created = begin(spec())
    assert guided(created, spec(**AUTO)) == ([], [])  # type: ignore[arg-type]
