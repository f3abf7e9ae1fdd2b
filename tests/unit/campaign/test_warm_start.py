"""Which earlier campaigns guide a new one, and that they provide nothing more than guidance."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from tests.unit.campaign.campaigns import THREADS, Campaign, Recorder, failing, faster, spec
from tests.unit.campaign.conftest import Begin
from tuner.model import BlockKind, Configuration, Prior, Recommendation, Trial
from tuner.plan.rules import rules_of
from tuner.run.priors import no_priors, priors
from tuner.run.stored_priors import compared_with
from tuner.run.warm_start import warm_start
from tuner.spec.campaign import CampaignSpec
from tuner.states import VERDICT_STATES, CampaignState, TrialState
from tuner.store import NewEvent, Store

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
    priors, used = guided(earlier, spec(**AUTO))  # type: ignore[arg-type]
    assert used == [earlier.id]
    assert priors
    assert all(prior.origin.startswith(f"{earlier.id}:") for prior in priors)
    assert guided(earlier, spec()) == ([], [])


def test_only_the_times_of_an_earlier_campaign_are_read(
    earlier: Campaign, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its measurements in full take ten times as much memory."""
    expected, _ = guided(earlier, spec(**AUTO))  # type: ignore[arg-type]
    assert expected
    monkeypatch.delattr(Store, "blocks")
    assert guided(earlier, spec(**AUTO)) == (expected, [earlier.id])  # type: ignore[arg-type]


def test_a_campaign_of_other_components_provides_no_priors(earlier: Campaign) -> None:
    prepared = Campaign(earlier.store, spec(), earlier.directory).prepared()
    rules = rules_of(prepared.spec, prepared.workload)
    assert priors(earlier.store, earlier.id, rules, prepared.parameters)
    *others, _ = rules.components
    equal = (1.0 / len(others),) * len(others)
    fewer = replace(rules, components=tuple(others), weights=equal)
    renamed = replace(rules, components=(*others, "other"))
    for changed in (fewer, renamed):
        assert priors(earlier.store, earlier.id, changed, prepared.parameters) == []
        assert "other components" in no_priors(earlier.store, earlier.id, changed)
    compares = replace(rules, compares=True)
    assert priors(earlier.store, earlier.id, compares, prepared.parameters) == []
    assert "searches nothing" in no_priors(earlier.store, earlier.id, compares)


@pytest.mark.parametrize("end", [CampaignState.PAUSED, CampaignState.CANCELLED])
def test_a_campaign_that_has_not_ended_guides_a_branch_by_what_it_measured(
    begin: Begin, end: CampaignState
) -> None:
    """Many threads are faster, few fail, and the trial that was added last is not measured yet."""
    few = failing("workload", low=20) | {"high": 20}
    pilot = {"blocks": 3, "override": True}
    campaign = begin(spec(faster(), few, noise=0.03, pilot=pilot))
    prepared = campaign.prepared()
    rules, parameters = rules_of(prepared.spec, prepared.workload), prepared.parameters
    stops = [KeyboardInterrupt()]

    def stop(_: int) -> None:
        if sum(block.kind is BlockKind.SEARCH for block in campaign.blocks) == 2 and stops:
            raise stops.pop()

    assert campaign.run(Recorder(stop)).campaign.state is CampaignState.PAUSED
    event, flags = NewEvent(datetime.now(UTC), "x", "x"), campaign.trials[0].flags
    last = Trial(len(campaign.trials), Configuration(), 9, "x", TrialState.RUNNING, flags)
    campaign.store.add_trials(campaign.id, [(last, event)])
    if end is CampaignState.CANCELLED:
        campaign.store.move_campaign(campaign.id, end, "", event)
    states = {trial.number: trial.state for trial in campaign.trials}
    # Neither the baseline nor its twin, trial 1.
    measured = {m.trial for block in campaign.blocks for m in block.measurements} - {0, 1}
    assert TrialState.FAILED in states.values()
    assert not {states[number] for number in measured} & {*VERDICT_STATES, TrialState.FAILED}
    guidance = priors(campaign.store, campaign.id, rules, parameters)
    numbers = [int(prior.origin.rpartition(":")[2]) for prior in guidance]
    assert numbers == [*sorted(measured), 0]
    assert min(prior.difference for prior in guidance) < -0.1


def test_why_a_campaign_guides_no_branch(finished: Campaign, begin: Begin) -> None:
    store = finished.store
    prepared = finished.prepared()
    rules = rules_of(prepared.spec, prepared.workload)
    assert priors(store, finished.id, rules, ()) == []
    assert "not in the new campaign's spaces" in no_priors(store, finished.id, rules)
    new = begin(spec())
    assert "measured none in a search" in no_priors(store, new.id, rules)
    event = NewEvent(datetime.now(UTC), "x", "x")
    for trial in finished.trials[1:]:
        store.move_trial(finished.id, trial.number, TrialState.FAILED, "", event)
    assert priors(store, finished.id, rules, prepared.parameters) == []
    assert "all that it measured have failed" in no_priors(store, finished.id, rules)


def test_a_verification_guides_nothing(begin: Begin) -> None:
    verification = begin(spec())
    assert verification.run().campaign.state is CampaignState.FINISHED
    answer = verification.store.campaign(verification.id).recommendation
    assert answer is not None
    holds = replace(answer, reason=f"{Recommendation.VERIFICATION}20260301-120000-abcd holds")
    event = NewEvent(datetime.now(UTC), "recommendation", "it holds")
    verification.store.save_recommendation(verification.id, holds, event)
    assert guided(verification, spec(**AUTO)) == ([], [])  # type: ignore[arg-type]


def test_the_newest_campaign_counts_for_shared_configurations(
    earlier: Campaign, begin: Begin
) -> None:
    again = begin(spec(faster(-0.3)))
    assert again.run().campaign.state is CampaignState.FINISHED
    priors, used = guided(earlier, spec(**AUTO))  # type: ignore[arg-type]
    assert used == [again.id, earlier.id]
    first = again.trials[0].configuration
    assert first == earlier.trials[0].configuration
    counted = compared_with(first, priors, {again.id: first, earlier.id: first})
    configurations = [prior.configuration for prior in counted]
    assert len(set(configurations)) == len(configurations) < len(priors)
    both = {t.configuration for t in again.trials} & {t.configuration for t in earlier.trials}
    shared = [prior for prior in counted if prior.configuration in both]
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
def test_a_dissimilar_campaign_guides_nothing(
    earlier: Campaign, sections: dict[str, object]
) -> None:
    assert guided(earlier, spec(**(sections | AUTO))) == ([], [])  # type: ignore[arg-type]


def test_a_campaign_that_has_not_finished_guides_nothing(begin: Begin) -> None:
    created = begin(spec())
    assert guided(created, spec(**AUTO)) == ([], [])  # type: ignore[arg-type]


def test_what_an_earlier_campaign_found_is_measured_only_where_the_file_allows_it(
    begin: Begin,
) -> None:
    """The earlier campaign found a gain in a setting that puts data at risk."""
    client = {"name": "openafs-cache-manager-fuse-1.8", "only": ["daemons"]}
    risky = {"parameter": "fileserver.sync_behavior", "value": "onclose", "change": -0.25}

    def searching(server: dict[str, object], first: list[dict[str, object]]) -> CampaignSpec:
        fileserver = {"name": "openafs-fileserver-1.8", **server}
        spaces = {"fileserver": fileserver, "cache_manager": client}
        return spec(risky, first=first, spaces=spaces, **AUTO)  # type: ignore[arg-type]

    wide: dict[str, object] = {"only": ["threads", "sync_behavior"], "allow_risk": ["durability"]}
    old = begin(searching(wide, [{"fileserver.sync_behavior": "onclose", THREADS: 200}]))
    assert old.run().campaign.recommendation is not None
    new = searching({"only": ["threads"], "range": {"threads": [16, 64]}}, [])
    priors, used = guided(old, new)
    assert used == [old.id]
    created = old.store.create_campaign(
        new.name, new.to_json(), new.seed, datetime.now(UTC), priors=priors
    )
    campaign = Campaign(old.store, new, old.directory, created.id)
    assert campaign.run().campaign.state is CampaignState.FINISHED
    configurations = [trial.configuration.as_dict() for trial in campaign.trials if trial.round > 0]
    assert configurations
    assert all("fileserver.sync_behavior" not in values for values in configurations)
    threads = [values[THREADS] for values in configurations if THREADS in values]
    assert all(16 <= number <= 64 for number in threads)  # type: ignore[operator]
