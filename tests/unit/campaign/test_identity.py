"""A resumed campaign continues only with what it was measured with."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import search_spaces
import workloads
from search_spaces import parse_space
from tests.unit.campaign.campaigns import THREADS, Campaign, Recorder, faster, spec
from tests.unit.campaign.conftest import Begin
from tests.unit.campaign.several import several
from tuner.errors import ConflictError, TestbedError
from tuner.measure.workload import load_workload
from tuner.plan.rules import rules_of
from tuner.run.identity import aspect, aspects, differences
from tuner.services.host_state import HostState
from tuner.services.simulated import SimulatedTestbed
from tuner.services.simulated import testbed as simulated
from tuner.services.simulated.document import SimulatedSection
from tuner.services.simulated.kind import SimulatedType
from tuner.services.testbed import ReadyTestbed
from tuner.spec.space_section import load_space
from tuner.states import CampaignState
from tuner.store import NewEvent

pytestmark = pytest.mark.slow


def cut_off(campaign: Campaign) -> None:
    """Run it until some blocks are measured."""

    def stop(count: int) -> None:
        if count == 60:
            raise KeyboardInterrupt

    assert campaign.run(Recorder(stop)).campaign.state is CampaignState.PAUSED
    assert any(block.measurements for block in campaign.blocks)


def refused(campaign: Campaign) -> str:
    """Return the error when the campaign is resumed; nothing is measured, and it stays paused."""
    before = campaign.blocks
    with pytest.raises(ConflictError) as refusal:
        campaign.run()
    assert campaign.store.campaign(campaign.id).state is CampaignState.PAUSED
    assert campaign.blocks == before
    assert f"'fstune branch {campaign.id} FILE'" in str(refusal.value)
    return str(refusal.value)


def test_the_same_again_goes_on(begin: Begin) -> None:
    campaign = begin(spec(faster()))
    cut_off(campaign)
    documents = campaign.store.measured_with(campaign.id)
    assert set(documents) == {
        "programs",
        "space of the cache_manager",
        "space of the fileserver",
        "statistics",
        "testbed",
        "workload",
    }
    assert campaign.run().campaign.state is CampaignState.FINISHED
    assert campaign.store.measured_with(campaign.id) == documents


def test_a_key_that_older_campaigns_lack_is_left_out_while_it_says_nothing(tmp_path: Path) -> None:
    usual, other = SimulatedSection(), SimulatedSection(after_restart={"fileserver": 0.1})
    documents = [SimulatedType().identity(each, tmp_path).document for each in (usual, other)]
    assert ["after_restart" in document for document in documents] == [False, True]


def test_another_workload_is_named(begin: Begin, tmp_path: Path) -> None:
    text = workloads.load("mixed-use").text
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    campaign = begin(spec(faster(), workload=str(path)))
    cut_off(campaign)
    path.write_text(text.replace("files: 1500", "files: 1400"))
    message = refused(campaign)
    assert "was measured: workload (filesets.small.files: 1400, was 1500); undo" in message
    path.write_text(re.sub(r"(?s)description: .*?\n(?=\w)", "description: other words\n", text))
    assert campaign.run().campaign.state is CampaignState.FINISHED


@pytest.mark.parametrize("state", [CampaignState.PAUSED, CampaignState.FAILED])
def test_a_campaign_whose_resume_is_refused_keeps_its_state(
    begin: Begin, monkeypatch: pytest.MonkeyPatch, state: CampaignState
) -> None:
    campaign = begin(spec(faster()))
    cut_off(campaign)
    if state is CampaignState.FAILED:
        with monkeypatch.context() as patch:
            patch.setattr(SimulatedTestbed, "open", _broken)
            assert campaign.run().campaign.state is state
    monkeypatch.setattr("tuner.run.identity.ALPHA", 0.05)
    for _ in range(2):
        with pytest.raises(ConflictError, match="statistics"):
            campaign.run()
        record = campaign.store.campaign(campaign.id)
        assert record.state is state
        assert record.reason.startswith("changed since")


def _broken(*_: object) -> ReadyTestbed:
    raise TestbedError("it broke")


def test_a_campaign_that_was_killed_has_failed_when_its_resume_is_refused(
    begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its state would say that it runs."""
    campaign = begin(spec(faster()))
    cut_off(campaign)
    event = NewEvent(datetime.now(UTC), "x", "x")
    campaign.store.move_campaign(campaign.id, CampaignState.RUNNING, "", event)
    monkeypatch.setattr("tuner.run.identity.ALPHA", 0.05)
    with pytest.raises(ConflictError, match="statistics"):
        campaign.run()
    record = campaign.store.campaign(campaign.id)
    assert record.state is CampaignState.FAILED
    assert "changed since" in record.reason


def test_another_space_is_named_and_its_descriptions_do_not_matter(
    begin: Begin, tmp_path: Path
) -> None:
    packaged = Path(search_spaces.__file__).with_name("openafs-fileserver-1.8.yaml")
    text = packaged.read_text()
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    spaces = {
        "fileserver": {"name": str(path), "only": ["threads"]},
        "cache_manager": {"name": "openafs-cache-manager-fuse-1.8", "only": ["daemons"]},
    }
    campaign = begin(spec(faster(), spaces=spaces))
    cut_off(campaign)
    path.write_text(re.sub(r"(?m)^title: .*$", "title: other words", text, count=1))
    cut_short = campaign.run(Recorder(lambda count: _stop(count, 30)))
    assert cut_short.error is None
    path.write_text(text.replace("range: [6, 256]", "range: [6, 300]"))
    message = refused(campaign)
    assert "space of the fileserver (parameters.threads.high: 300, was 256); undo" in message


def _stop(count: int, at: int) -> None:
    if count == at:
        raise KeyboardInterrupt


def test_other_statistics_are_named(begin: Begin, monkeypatch: pytest.MonkeyPatch) -> None:
    campaign = begin(spec(faster()))
    cut_off(campaign)
    monkeypatch.setattr("tuner.run.identity.ALPHA", 0.05)
    assert "statistics (alpha: 0.05, was 0.025)" in refused(campaign)


def test_other_programs_are_named(begin: Begin, monkeypatch: pytest.MonkeyPatch) -> None:
    campaign = begin(spec(faster()))
    cut_off(campaign)
    upgraded = partial(simulated._SimulatedPart, identity="simulated 2")
    monkeypatch.setattr(simulated, "_SimulatedPart", upgraded)
    message = refused(campaign)
    assert 'programs (identity: "simulated 2", was "simulated")' in message
    assert "restored" in campaign.kinds()


Now = Callable[..., None]
KERNEL, OTHER = {"kernel": "6.1.0-28"}, {"kernel": "6.1.0-30"}


@pytest.fixture
def hosts(monkeypatch: pytest.MonkeyPatch) -> Now:
    """Return a function that sets what the host of each testbed is, by the seed of its world, or
    of every testbed.
    """
    items: dict[int | None, dict[str, str]] = {}
    real = SimulatedTestbed.open

    def set_items(what: dict[str, str], seed: int | None = None) -> None:
        items[seed] = what

    def open(testbed: SimulatedTestbed, *arguments: Any) -> ReadyTestbed:
        what = items.get(testbed.world.seed, items.get(None, {}))
        return replace(real(testbed, *arguments), hosts=(HostState("fs1", tuple(what.items())),))

    monkeypatch.setattr(SimulatedTestbed, "open", open)
    return set_items


def test_another_kernel_or_sysctl_is_named_until_it_is_restored(begin: Begin, hosts: Now) -> None:
    hosts(KERNEL | {"vm.dirty_ratio": "20"})
    campaign = begin(spec(faster()))
    cut_off(campaign)
    hosts(OTHER | {"vm.dirty_ratio": "40"})
    for _ in range(2):  # the refused run has found it too, but measured nothing
        message = refused(campaign)
        assert "was measured: hosts: fs1 kernel 6.1.0-30, not 6.1.0-28, fs1 vm.dirty" in message
    assert campaign.kinds().count("testbed-ready") == 1
    # Only what was read both times is compared, as for a certificate.
    hosts(KERNEL | {"vm.swappiness": "60"})
    assert campaign.run().campaign.state is CampaignState.FINISHED


def test_other_limits_of_hosts_are_named(begin: Begin, monkeypatch: pytest.MonkeyPatch) -> None:
    campaign = begin(spec(faster()))
    cut_off(campaign)
    monkeypatch.setattr(simulated, "FACTS", {**simulated.FACTS, "nofile": 1024})
    assert "limits of its hosts cache_manager.nofile 1024, fileserver.nofile" in refused(campaign)
    # No two readings of a size are the same.
    sizes = {"nofile": 65536, "memory_bytes": 15 << 30}
    monkeypatch.setattr(simulated, "FACTS", {**simulated.FACTS, **sizes})
    assert campaign.run().campaign.state is CampaignState.FINISHED


def test_each_testbed_is_compared_with_itself(begin: Begin, hosts: Now) -> None:
    hosts(KERNEL, 1)
    hosts(OTHER, 2)
    campaign = begin(several(faster(), names=("a", "b")))
    cut_off(campaign)
    campaign.run(Recorder(lambda count: _stop(count, 20)))
    assert campaign.kinds().count("testbed-ready") == 4
    hosts(KERNEL, 2)
    assert "hosts: fs1 kernel 6.1.0-28, not 6.1.0-30; undo" in refused(campaign)


def test_hosts_of_which_nothing_was_measured_may_change(begin: Begin, hosts: Now) -> None:
    hosts(KERNEL)
    campaign = begin(spec(faster()))
    campaign.run(Recorder(lambda count: _stop(count, 4)))
    assert "testbed-ready" in campaign.kinds()
    assert not any(block.measurements for block in campaign.blocks)
    hosts(OTHER)
    cut_off(campaign)
    assert campaign.run().campaign.state is CampaignState.FINISHED


def test_what_was_never_measured_may_change(begin: Begin, tmp_path: Path) -> None:
    text = workloads.load("mixed-use").text
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    campaign = begin(spec(faster(), workload=str(path)))
    campaign.run(Recorder(lambda count: _stop(count, 1)))
    assert not any(block.measurements for block in campaign.blocks)
    path.write_text(text.replace("files: 1500", "files: 1400"))
    assert campaign.run().campaign.state is CampaignState.FINISHED


def test_a_campaign_of_an_earlier_release_goes_on(begin: Begin) -> None:
    """What it was measured with was not stored then; it is now."""
    campaign = begin(spec(faster()))
    aspects_now = dict(campaign.prepared().aspects)
    cut_off(campaign)
    with campaign.store._database.writer.begin() as connection:
        connection.exec_driver_sql("DELETE FROM measured_with")
    assert campaign.run().campaign.state is CampaignState.FINISHED
    documents = campaign.store.measured_with(campaign.id)
    assert {name: documents[name] for name in aspects_now} == aspects_now


def test_narrowing_is_part_of_a_space() -> None:
    wide = spec(faster())
    narrow = wide.model_dump()
    narrow["spaces"]["fileserver"]["range"] = {"threads": [8, 100]}
    workload = load_workload("mixed-use")
    rules = rules_of(wide, workload)
    documents = []
    for each in (wide, wide.model_validate(narrow)):
        space = load_space(each.spaces["fileserver"], "fileserver")
        documents.append(aspects({"fileserver": space}, workload, rules, {}))
    (message,) = differences(*documents)
    assert message.startswith("space of the fileserver (parameters.threads.")
    assert ": 100, was " in message


def test_options_of_other_versions_are_no_part_of_a_space() -> None:
    """Such an option can be added without ending the campaigns that were paused before."""
    file = Path(search_spaces.__file__).with_name("openafs-fileserver-1.8.yaml")
    text = file.read_text(encoding="utf-8")
    before = re.sub(r"(?m)^  -cve-2018-7168-enforce: .*\n", "", text)
    assert before != text
    workload = load_workload("mixed-use")
    rules = rules_of(spec(faster()), workload)
    old, new = (
        aspects({"fileserver": parse_space(each, file.name)}, workload, rules, {})
        for each in (before, text)
    )
    assert old == new


def test_the_limits_of_stages_are_no_part_of_a_workload() -> None:
    """Campaigns of earlier releases have stored combined and enlarged workloads without them."""
    for workload in (load_workload("office"), load_workload("mixed-use", 2.0)):
        rules = rules_of(spec(faster()), workload)
        document = aspects({}, workload, rules, {})["workload"].document
        assert isinstance(document, dict)
        assert not any("wall_clock_limit_s" in stage for stage in document["stages"])
        whole = {"office": 10920, "mixed-use": 120}[document["name"]]
        assert document["wall_clock_limit_s"] == whole


def test_differences_are_named_and_counted() -> None:
    old = {"x": aspect({"a": 1, "b": [1, 2], "c": {"d": "long " * 20}, "e": None}), "y": aspect(1)}
    new = {"x": aspect({"a": 2, "b": [1, 3], "c": {"d": ""}, "f": 0}), "z": aspect(2)}
    assert differences(old, old) == []
    (message,) = differences(old, new)
    assert message.startswith('x (a: 2, was 1, b.1: 3, was 2, c.d: "", was "long long')
    assert message.endswith("... and 2 more)")


def test_a_digest_follows_from_the_document_alone() -> None:
    assert aspect({"a": 1, "b": 2}) == aspect({"b": 2, "a": 1})
    assert aspect({"a": 1}).digest != aspect({"a": 1.5}).digest
    assert THREADS in str(aspect({THREADS: 1}).document)


def test_the_statistics_of_stored_campaigns_are_still_known() -> None:
    """In the format of earlier releases, whose campaigns can be resumed."""
    specification = spec(faster())
    work = load_workload(specification.workload.name, specification.workload.scale)
    document = aspects({}, work, rules_of(specification, work), {})["statistics"].document
    assert document == {
        "alpha": 0.025,
        "certify_blocks": specification.certification.blocks,
        "finalists": specification.certification.finalists,
        "race": {
            "alpha_equivalent": 0.05,
            "alpha_futility": 0.05,
            "alpha_promote": 0.01,
            "delta": specification.statistics.delta,
            "floor": specification.statistics.floor,
            "max_blocks": specification.search.blocks_per_trial,
            "min_blocks": 3,
            "resolution_s": 0.0,
        },
    }
