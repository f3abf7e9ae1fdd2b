"""What a campaign does with the diagnostics of its arms."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace

import pytest

from tests.unit.campaign.campaigns import Campaign, Recorder, spec
from tests.unit.campaign.conftest import Begin
from tests.unit.measure.diagnostics.hosts import Host
from tuner.measure.diagnostics.watch import Watch
from tuner.measure.workload import Workload
from tuner.measure.workload_run import LEFTOVERS_S, Engine, Report, StagedRun, run_once
from tuner.run.lanes import CampaignTestbed
from tuner.run.runner import Runner, RunOutcome
from tuner.services import testbed as testbeds
from tuner.services.openafs.counters import client_probe, server_probe
from tuner.services.testbed import ReadyTestbed, Unavailable
from tuner.states import BlockState, CampaignState

SMALL = {"name": "mixed-use", "scale": 0.02}
#: More than the workload's cold stage reads.
PLENTY_KIB = 1 << 20


@dataclass
class Staged:
    """An engine that runs every stage, while ``client`` counts what it fetches."""

    inner: Engine
    workload: Workload
    client: Host
    fetched_kib: int

    def run(self, run_id: str, seed: int) -> AbstractContextManager[StagedRun]:
        stages = self.workload.spec.stages
        report = run_once(self.inner, run_id, seed, lambda: None)

        def one(name: str, cold_before: int) -> Report:
            self.client.count(fetched_kib=self.fetched_kib, cpu=100)
            return replace(report, cpu_s=0.5 / len(stages))

        return nullcontext(StagedRun(stages, one))

    def end_runs(self, prefix: str) -> None:
        """Nothing keeps running."""

    def clean_leftovers(self, prefix: str, within_s: float = LEFTOVERS_S) -> tuple[str, ...]:
        """Nothing is ever left."""
        return ()


@dataclass
class Counting:
    """The simulated testbed with a server and a client that have counters."""

    inner: testbeds.Testbed
    fetched_kib: int
    server: Host
    client: Host

    @property
    def clock(self) -> Callable[[], float]:
        return self.inner.clock

    def claim(self, campaign: str) -> bool:
        return self.inner.claim(campaign)

    def unavailable(self) -> Unavailable | None:
        return self.inner.unavailable()

    def open(self, workload: Workload, say: Callable[[str], None]) -> ReadyTestbed:
        ready = self.inner.open(workload, say)
        watch = Watch(
            workload.spec,
            (server_probe(self.server, "fs1", "dafileserver", "10.77.0.1"),),
            (client_probe(self.client, "ws1", "afsd.fuse", "/srv"),),
            "kept",
        )
        engine = Staged(ready.engine, workload, self.client, self.fetched_kib)
        return replace(ready, engine=engine, watch=watch)

    def close(self) -> str | None:
        return self.inner.close()


def run(campaign: Campaign, fetched_kib: int, server: Host | None = None) -> RunOutcome:
    prepared = campaign.prepared()
    testbed = Counting(prepared.testbed, fetched_kib, server or Host.server(), Host.client())
    testbeds = [CampaignTestbed(None, "counted", testbed)]
    runner = Runner(
        campaign.store, campaign.id, prepared.spec, prepared.workload, testbeds, Recorder()
    )
    return runner.run()


@pytest.mark.slow
def test_diagnostics_are_stored_with_every_measurement(
    begin: Begin,
) -> None:
    campaign = begin(spec(workload=SMALL))
    assert run(campaign, PLENTY_KIB).campaign.state is CampaignState.FINISHED
    measured = [m.diagnostics for block in campaign.blocks for m in block.measurements]
    assert measured
    for diagnostics in measured:
        assert diagnostics["engine_cpu_s"] == 0.5
        assert diagnostics["ws1.cpu_s"] == 2.0  # a second a stage
        assert diagnostics["cold.read.small-read-cold"] == "proven"
        assert diagnostics["server.page_cache"] == "kept"


@pytest.mark.slow
def test_runs_that_read_from_a_warm_cache_are_void(
    begin: Begin,
) -> None:
    campaign = begin(spec(workload=SMALL))
    outcome = run(campaign, fetched_kib=10)
    assert outcome.campaign.state is CampaignState.FAILED
    assert "small-read-cold did not read from a cold cache" in outcome.campaign.reason
    assert {block.state for block in campaign.blocks} == {BlockState.VOID}


@pytest.mark.slow
def test_a_source_that_cannot_be_read_is_reported_once_and_costs_nothing(
    begin: Begin,
) -> None:
    campaign = begin(spec(workload=SMALL))
    silent = Host.server()
    silent.reachable = False
    assert run(campaign, PLENTY_KIB, silent).campaign.state is CampaignState.FINISHED
    messages = [e.message for e in campaign.store.events(campaign.id) if e.kind == "diagnostics"]
    assert "diagnostics without fs1: fs1: out of reach" in messages
    assert len(messages) == len(set(messages))
    assert all(block.state is BlockState.COMPLETE for block in campaign.blocks)
