"""Threats to validity: each is reported if the campaign's data shows it, and only then."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from tests.unit.report.samples import AT, BASELINE, BETTER, RECOMMENDED, campaign
from tuner.model import BlockKind, Configuration, Event, SettingEffect, Trial
from tuner.page.threats import Evidence, threats
from tuner.records.differences import names_of_changes
from tuner.report.summary import Effort
from tuner.results.drift import DriftPoint
from tuner.services.openafs.kind import HostsType
from tuner.spec.campaign import CampaignSpec
from tuner.states import TrialState
from tuner.time_use import TimeUse

SPEC = CampaignSpec.model_validate(
    {
        "name": "x",
        "testbed": {"hosts": "lab.yaml"},
        "spaces": {"cache_manager": {"name": "openafs-cache-manager-linux-1.8"}},
        "workload": "mixed-use",
    }
)


def besides(evidence: Evidence) -> list[str]:
    """The threats, without that of every testbed of hosts."""
    return [each for each in threats(evidence) if each != HostsType.threat]


def drifting(*ratios: float) -> tuple[DriftPoint, ...]:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    return tuple(
        DriftPoint(n, BlockKind.SEARCH, start + timedelta(minutes=n), ratio)
        for n, ratio in enumerate(ratios, start=1)
    )


#: Two kernel clients, hours of work, one setting changed, every floor met: no threats.
QUIET = Evidence(
    campaign=campaign(
        replace(
            RECOMMENDED,
            baseline=Configuration.of({"fileserver.threads": 12}),
            configuration=Configuration.of({"fileserver.threads": 64}),
        ),
        time_use=TimeUse(wall_s=9e4, workload_s=8e4),
    ),
    spec=SPEC,
    programs="dafileserver 1.8.9; afsd 1.8.9",
    clients=2,
    trials=(),
    effort=Effort(trials=3, blocks=30, measurements=0),
    events=(),
    drift=drifting(*[1.0] * 9),
    readable=True,
)


def test_what_was_not_recorded_about_the_hosts_is_reported() -> None:
    measured = replace(QUIET, effort=replace(QUIET.effort, measurements=60))
    (sentence,) = besides(measured)
    assert sentence.startswith(
        "Hardware, kernel and sysctl settings of the hosts were not recorded"
    )
    (sentence,) = besides(replace(measured, hosts=True))
    assert sentence.startswith("Processors, memory and network interfaces of the hosts were not")


def with_spec(**sections: object) -> Evidence:
    return replace(
        QUIET, spec=CampaignSpec.model_validate({**SPEC.model_dump(mode="json"), **sections})
    )


def with_event(kind: str) -> Evidence:
    return replace(QUIET, events=(Event(1, AT, kind, "it was told"),))


def with_answer(**changes: object) -> Evidence:
    answer = QUIET.campaign.recommendation
    assert answer is not None
    changed = replace(answer, **changes)  # type: ignore[arg-type]
    return replace(QUIET, campaign=replace(QUIET.campaign, recommendation=changed))


FAILED = Trial(1, Configuration(), 1, "model", TrialState.FAILED)
COMPONENTS = {n: replace(e, floor_held=n != "read") for n, e in RECOMMENDED.components.items()}


def test_a_quiet_campaign_has_none_but_the_memory_of_the_server() -> None:
    assert threats(QUIET) == [HostsType.threat]
    assert "memory of the server" in HostsType.threat
    assert HostsType.threat not in threats(with_spec(testbed={"cell": {}}))


@pytest.mark.parametrize(
    ("evidence", "word"),
    [
        (with_spec(testbed={"simulated": {}}), "simulated"),
        (with_spec(testbed={"cell": {}}), "private cell"),
        (replace(QUIET, programs="afsd.fuse 1.8.9"), "afsd.fuse"),
        (replace(QUIET, clients=1), "One client"),
        (replace(QUIET, effort=Effort(3, 30, 100)), "kernel"),
        (
            replace(QUIET, campaign=replace(QUIET.campaign, time_use=TimeUse(600.0, 0, 0, 500.0))),
            "ran for 8 min 20 s",
        ),
        (with_spec(workload={"name": "mixed-use", "scale": 0.1}), "0.1 times"),
        (with_spec(pilot={"blocks": 0}), "no pilot"),
        (with_spec(statistics={"floor": 0.25}), "25% slower"),
        (with_spec(statistics={"adjust": True}), "subtracting"),
        (with_answer(blocks=3), "rests on 3 blocks"),
        (with_answer(components=COMPONENTS), "not settled: read"),
        (with_answer(configuration=RECOMMENDED.configuration), "Several settings"),
        (replace(QUIET, trials=(FAILED,)), "1 configuration did not run"),
        (replace(QUIET, readable=False), "workload's file is missing"),
        (replace(QUIET, drift=drifting(1.2, 0.8, 1.0, 1.0, 1.2, 0.8)), "varied by"),
        (replace(QUIET, drift=drifting(*[1.0] * 6, *[1.04] * 3)), "4.0% slower from"),
        (replace(QUIET, effort=Effort(3, 30, 0, 2)), "2 blocks did not count"),
        (with_event("campaign-paused"), "paused 1 time"),
        (with_event("guard"), "warned: it was told"),
        (with_event("testbed-effect"), "warned: it was told"),
    ],
)
def test_each_threat_is_reported_separately(evidence: Evidence, word: str) -> None:
    (threat,) = besides(evidence)
    assert word in threat


def test_settings_that_are_not_shown_to_matter_may_do_nothing() -> None:
    """The sentence follows from what is known of each setting."""
    gains = {name: SettingEffect(0.9, 0.85, 0.95) for name in names_of_changes(BASELINE, BETTER)}
    (name, *_) = gains
    for settings, may_do_nothing in (
        ({}, True),
        (gains, False),
        (gains | {name: SettingEffect(0.99, 0.9, 1.1)}, True),
        ({name: gains[name]}, True),
    ):
        changed = with_answer(baseline=BASELINE, configuration=BETTER, settings=settings)
        (threat,) = besides(changed)
        assert "changed together" in threat
        assert ("may do nothing" in threat) is may_do_nothing


def test_a_setting_without_effect_is_no_change() -> None:
    answer = QUIET.campaign.recommendation
    assert answer is not None
    both = Configuration.of({"fileserver.threads": 64, "fileserver.vlru": 4})
    changed = replace(QUIET, campaign=campaign(replace(answer, configuration=both)))
    assert any("changed together" in sentence for sentence in besides(changed))
    same = replace(changed, without_effect=frozenset({"fileserver.vlru"}))
    assert not any("changed together" in sentence for sentence in besides(same))


def test_many_warnings_are_cut_short() -> None:
    events = tuple(Event(n, AT, "guard", f"warning {n}") for n in range(1, 31))
    sentences = besides(replace(QUIET, events=events))
    assert len(sentences) == 9
    assert sentences[-1] == "The disturbances show 22 more warnings."


def test_a_campaign_without_an_answer_has_no_besides() -> None:
    nothing = replace(QUIET, campaign=campaign(None), spec=None, drift=(), clients=0)
    assert besides(replace(nothing, campaign=replace(nothing.campaign, time_use=TimeUse()))) == []
