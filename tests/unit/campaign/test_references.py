"""References among the arms: measured in every block, reported, and never judged."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from tests.unit.campaign.campaigns import Campaign, faster, spec
from tests.unit.campaign.conftest import Begin
from tuner.errors import TransportError, WorkloadError
from tuner.measure.references import ReferencePlan
from tuner.measure.workload import load_workload
from tuner.measure.workload_run import LEFTOVERS_S, Report, StagedRun
from tuner.model import BASELINE, Answer, ComponentResult
from tuner.plan.rules import rules_of
from tuner.report.references import comparison_sentence
from tuner.results.reference_comparison import (
    client_ratios,
    comparisons,
    stored_reference_comparisons,
)
from tuner.services.simulated import testbed as simulated
from tuner.states import BlockState, CampaignState

pytestmark = pytest.mark.slow

WORKLOAD = load_workload("mixed-use")
REPORT = Report({name: ComponentResult(1.0, 1, 0) for name in WORKLOAD.components}, 0.0, "x")
TWO = [
    {"name": "local-disk", "path": "/fstune"},
    {"name": "other", "path": "/tmp", "every": 3},
]


def with_references(
    *effects: dict[str, object], budget: dict[str, Any] | None = None, **ratios: float
) -> Any:
    changed: dict[str, Any] = {} if budget is None else {"budget": budget}
    described = spec(*effects, references=TWO, **changed)
    assert described.testbed is not None
    world = described.testbed.section
    assert world is not None
    truth = {name.replace("_", "-"): ratio for name, ratio in ratios.items()}
    testbed = described.testbed.model_copy(
        update={"simulated": world.model_copy(update={"references": truth})}
    )
    return described.model_copy(update={"testbed": testbed})


def test_each_block_has_its_references_somewhere_among_its_arms(begin: Begin) -> None:
    campaign = begin(with_references(faster()))
    campaign.run()
    positions = set()
    for block in campaign.blocks:
        names = sorted(run.name for run in block.references)
        assert names == (["local-disk", "other"] if block.number % 3 == 1 else ["local-disk"])
        for run in block.references:
            assert 0 <= run.position <= len(block.order)
            assert run.seed == block.measurements[0].seed
            positions.add((run.name, run.position / len(block.order)))
    assert len(positions) > 3
    assert campaign.kinds().count("reference-measured") == sum(
        len(block.references) for block in campaign.blocks
    )


def test_references_change_no_decision(begin: Begin) -> None:
    # References take testbed time, so a budget of time would allow fewer blocks.
    runs = {"wall_time": "10h", "measurements": 60}
    alone = begin(spec(faster(), budget=runs))
    beside = begin(with_references(faster(), budget=runs))
    beside.run()
    alone.run()
    answers = [campaign.store.campaign(campaign.id).recommendation for campaign in (beside, alone)]
    assert answers[0] == answers[1]
    assert [b.order for b in beside.blocks] == [b.order for b in alone.blocks]
    assert [t.configuration for t in beside.trials] == [t.configuration for t in alone.trials]


def test_the_true_ratio_is_reported_as_found_and_as_recommended(begin: Begin) -> None:
    campaign = begin(with_references(faster(-0.2), local_disk=0.5))
    row = campaign.run().campaign
    assert row.recommendation is not None
    assert row.recommendation.answer is Answer.RECOMMENDED
    by_settings = {
        (c.reference, c.settings): c for c in stored_reference_comparisons(row, campaign.blocks)
    }
    as_found = by_settings["local-disk", "as found"]
    assert as_found.estimate.lower < 2.0 < as_found.estimate.upper
    assert as_found.blocks == sum(b.state is BlockState.COMPLETE for b in campaign.blocks)
    better = by_settings["local-disk", "as recommended"]
    assert better.estimate.lower < 1.6 < better.estimate.upper < 2.0
    assert better.blocks == row.recommendation.blocks
    assert by_settings["other", "as found"].estimate.ratio == pytest.approx(1.0, abs=0.01)


def test_void_blocks_and_other_arms_are_not_compared(begin: Begin) -> None:
    campaign = begin(with_references(faster()))
    campaign.run()
    rules = rules_of(campaign.spec, campaign.prepared().workload)
    blocks = campaign.blocks
    void = [replace(block, state=BlockState.VOID) for block in blocks]
    assert comparisons(void, rules, None) == []
    without = [
        replace(b, measurements=tuple(m for m in b.measurements if m.trial != BASELINE))
        for b in blocks
    ]
    assert comparisons(without, rules, None) == []


def test_a_workload_whose_file_is_gone_compares_nothing(begin: Begin) -> None:
    campaign = begin(with_references(faster()))
    row = campaign.run().campaign
    without_file = replace(row, spec=row.spec.replace('"mixed-use"', '"/no/such.yaml"'))
    assert stored_reference_comparisons(row, campaign.blocks) != []
    assert stored_reference_comparisons(without_file, campaign.blocks) == []


@dataclass
class Failing:
    """A reference that fails on demand."""

    plan: ReferencePlan
    fails: Callable[[int], Exception | None]
    calls: list[str] = field(default_factory=list)
    cleaned: list[str] = field(default_factory=list)

    @property
    def engine(self) -> Failing:
        return self

    def run(self, run_id: str, seed: int) -> AbstractContextManager[StagedRun]:
        self.calls.append(run_id)
        problem = self.fails(len(self.calls))
        if problem is not None:
            raise problem
        return nullcontext(StagedRun(WORKLOAD.spec.stages[:1], lambda stage, cold: REPORT))

    def make_cold(self, run_id: str) -> None:
        raise AssertionError("the first stage is not cold")

    def end_runs(self, prefix: str) -> None:
        raise AssertionError("a reference is left to its host")

    def clean_leftovers(self, prefix: str, within_s: float = LEFTOVERS_S) -> tuple[str, ...]:
        self.cleaned.append(prefix)
        return ()


def run_with(
    monkeypatch: pytest.MonkeyPatch, campaign: Campaign, reference: Failing
) -> CampaignState:
    real_open = simulated.SimulatedTestbed.open

    def open_with(self: Any, workload: Any, say: Any) -> Any:
        return replace(real_open(self, workload, say), references=(reference,))

    monkeypatch.setattr(simulated.SimulatedTestbed, "open", open_with)
    return campaign.run().campaign.state


def test_a_failing_reference_is_reported_and_voids_nothing(
    begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    void = WorkloadError("stage write: os in create of /nfs/x: stale file handle")
    reference = Failing(ReferencePlan("nfs", "/nfs"), lambda call: void if call == 2 else None)
    campaign = begin(spec(faster()))
    assert run_with(monkeypatch, campaign, reference) is CampaignState.FINISHED
    assert reference.cleaned == [campaign.id] * 2  # before the first run, and at the end
    assert all(block.state is BlockState.COMPLETE for block in campaign.blocks)
    assert [len(block.references) for block in campaign.blocks][:3] == [1, 0, 1]
    (event,) = [e for e in campaign.store.events(campaign.id) if e.kind == "reference-failed"]
    assert event.message == f"block 2, nfs: {void}"


def test_a_reference_that_keeps_failing_is_left_out(
    begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    reference = Failing(ReferencePlan("nfs", "/nfs"), lambda call: WorkloadError("no answer"))
    campaign = begin(spec(faster()))
    assert run_with(monkeypatch, campaign, reference) is CampaignState.FINISHED
    assert len(reference.calls) == 2
    events = [e for e in campaign.store.events(campaign.id) if e.kind == "reference-failed"]
    assert events[-1].message.endswith("no answer; nfs is left out for the rest of this run")


def test_a_host_out_of_reach_twice_in_a_row_ends_the_run(
    begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = TransportError("client1: no answer")
    reference = Failing(ReferencePlan("nfs", "/nfs"), lambda call: lost)
    campaign = begin(spec(faster()))
    assert run_with(monkeypatch, campaign, reference) is CampaignState.FAILED
    assert [block.state for block in campaign.blocks] == [BlockState.VOID] * 2


def test_a_slow_client_is_detected(begin: Begin) -> None:
    campaign = begin(spec(faster()))
    campaign.run()
    rules = rules_of(campaign.spec, campaign.prepared().workload)

    def clients(of: dict[str, ComponentResult]) -> dict[str, dict[str, ComponentResult]]:
        slow = {name: replace(c, elapsed_s=1.21 * c.elapsed_s) for name, c in of.items()}
        return {"client1": of, "client2": slow}

    blocks = [
        replace(
            block,
            measurements=tuple(
                replace(m, clients=clients(dict(m.components))) for m in block.measurements
            ),
        )
        for block in campaign.blocks
    ]
    assert client_ratios(campaign.blocks, rules) == {}
    ratios = client_ratios(blocks, rules)
    assert ratios == pytest.approx({"client1": 1 / 1.1, "client2": 1.1})


def test_a_comparison_in_words(begin: Begin) -> None:
    campaign = begin(with_references(faster(), local_disk=0.5))
    campaign.run()
    rules = rules_of(campaign.spec, campaign.prepared().workload)
    one = comparisons(campaign.blocks, rules, None)[0]
    sentence = comparison_sentence(one)
    assert sentence.startswith("The service as found takes 2.00 times as long as local-disk (95% ")
    assert sentence.endswith(f" to {one.estimate.upper:.2f}, {one.blocks} blocks).")
    assert comparison_sentence(replace(one, clients=4, cold=False)).endswith(
        "; 4 clients at once against one; the reference's cold reads may have come from memory."
    )
