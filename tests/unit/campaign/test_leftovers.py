"""Files that runs have left are removed while that is possible, and what remains is reported."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.unit.campaign.campaigns import SHORT, Campaign, faster, spec
from tests.unit.campaign.conftest import Begin
from tests.unit.campaign.several import several
from tuner.errors import TestbedError, TransportError, WorkloadError
from tuner.measure.workload_run import LEFTOVERS_S
from tuner.model import Event
from tuner.page.disturbances import DISTURBING
from tuner.page.report_builder import report_document
from tuner.page.snapshot import SnapshotCache
from tuner.run.leftovers import events_of, sentences_on, still_left
from tuner.services.simulated.testbed import _SimulatedEngine, _SimulatedPart
from tuner.states import BlockState, CampaignState

pytestmark = pytest.mark.slow

SENTENCE = "client1: /afs/volume/fstune-1: not removed: in use; remove it by hand"
OVER = "what runs had left is removed: nothing is to be removed by hand"
REPLACED = "earlier messages on what runs had left are replaced by those that follow"


@dataclass
class Volume:
    """Files on a simulated volume, and what happened to it in order.

    ``fails``: the numbers of the runs that fail, with the number of runs that cannot clean up
    themselves. Files can be removed only while a client has a token (``needs_token``), which it
    has from the first configuration applied until it is restored. ``stuck``: not even then, or
    only once the server is restored (``in_use``).
    """

    fails: Sequence[int] = ()
    problem: BaseException = field(default_factory=lambda: WorkloadError("short-read"))
    needs_token: bool = False
    stuck: bool = False
    in_use: bool = False
    has_token: bool = False
    files: set[str] = field(default_factory=set)
    runs: int = 0
    log: list[str] = field(default_factory=list)

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        report, apply, restore = (
            _SimulatedEngine.report,
            _SimulatedPart.apply,
            _SimulatedPart.restore,
        )

        def run(engine: _SimulatedEngine, run_id: str) -> object:
            self.runs += 1
            self.log.append("run")
            if self.runs in self.fails:
                self.files.add(run_id)
                raise self.problem
            return report(engine, run_id)

        def get_token(part: _SimulatedPart, *args: Any, **options: Any) -> str | None:
            self.has_token = True
            return apply(part, *args, **options)

        def lose_token(part: _SimulatedPart) -> str:
            self.log.append("restore")
            self.has_token = self.in_use = False
            return restore(part)

        def clean(
            engine: _SimulatedEngine, prefix: str, within_s: float = LEFTOVERS_S
        ) -> tuple[str, ...]:
            self.log.append("clean" if within_s == LEFTOVERS_S else "clean quickly")
            if self.stuck or self.in_use or (self.needs_token and not self.has_token):
                return (SENTENCE,) if self.files else ()
            self.files.clear()
            return ()

        monkeypatch.setattr(_SimulatedEngine, "report", run)
        monkeypatch.setattr(_SimulatedEngine, "clean_leftovers", clean)
        monkeypatch.setattr(_SimulatedPart, "apply", get_token)
        monkeypatch.setattr(_SimulatedPart, "restore", lose_token)


def reports(campaign: Campaign, kind: str = "leftovers") -> list[str]:
    return [e.message for e in campaign.store.events(campaign.id) if e.kind == kind]


def disturbances(campaign: Campaign) -> list[str]:
    """What the report says of files that are left."""
    document = report_document(SnapshotCache(campaign.store), campaign.id)
    return [each.message for each in document.disturbances if "leftovers" in each.kind]


def test_files_are_removed_before_the_token_for_that_is_destroyed(
    begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    volume = Volume(fails=(3,), problem=KeyboardInterrupt(), needs_token=True)
    volume.install(monkeypatch)
    campaign = begin(spec(faster(), **SHORT))
    outcome = campaign.run()
    assert outcome.campaign.state is CampaignState.PAUSED
    assert volume.files == set()
    assert reports(campaign) == []
    assert volume.log[-3:] == ["clean quickly", "restore", "restore"]


def test_what_is_left_at_the_end_is_reported_even_if_nothing_can_be_restored(
    begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    volume = Volume(fails=(3,), problem=KeyboardInterrupt(), stuck=True)
    volume.install(monkeypatch)

    def stuck(part: _SimulatedPart) -> str:
        raise TestbedError("the host is down")

    monkeypatch.setattr(_SimulatedPart, "restore", stuck)
    campaign = begin(spec(faster(), **SHORT))
    with pytest.raises(TestbedError, match="the host is down"):
        campaign.run()
    assert reports(campaign) == [SENTENCE]


@pytest.mark.parametrize(
    "problem", [WorkloadError("short-read"), TransportError("client1: no answer")]
)
def test_what_a_failed_run_could_not_remove_is_removed_before_the_next_one(
    begin: Begin, monkeypatch: pytest.MonkeyPatch, problem: Exception
) -> None:
    volume = Volume(fails=(2,), problem=problem)
    volume.install(monkeypatch)
    campaign = begin(spec(faster(), **SHORT))
    assert campaign.run().campaign.state is CampaignState.FINISHED
    assert volume.log[:6] == ["clean", "run", "run", "clean", "run", "run"]
    assert volume.log.count("clean") == 2
    assert reports(campaign) == []


def test_what_cannot_be_removed_is_reported_when_it_happens_and_at_the_end(
    begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    volume = Volume(fails=(2, 9), stuck=True)
    volume.install(monkeypatch)
    campaign = begin(spec(faster(), **SHORT))
    outcome = campaign.run()
    assert outcome.campaign.state is CampaignState.FINISHED
    assert all(block.state is BlockState.COMPLETE for block in campaign.blocks)
    assert reports(campaign) == [SENTENCE] * 2
    assert SENTENCE in outcome.restored
    assert disturbances(campaign) == [SENTENCE]
    assert volume.log[-4:] == ["clean quickly", "restore", "restore", "clean"]
    assert {"leftovers", "run-failed"} <= {*DISTURBING}


def test_files_of_an_earlier_run_are_removed_as_soon_as_there_is_a_token(
    begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    volume = Volume(needs_token=True, files={"a run that was killed"})
    volume.install(monkeypatch)
    campaign = begin(spec(faster(), **SHORT))
    assert campaign.run().campaign.state is CampaignState.FINISHED
    assert volume.log[:3] == ["clean", "clean", "run"]
    assert volume.files == set()
    assert reports(campaign) == []


def test_files_of_an_earlier_run_that_stay_are_reported(
    begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    volume = Volume(stuck=True, files={"a run that was killed"})
    volume.install(monkeypatch)
    campaign = begin(spec(faster(), **SHORT))
    outcome = campaign.run()
    kinds = campaign.kinds()
    assert kinds.index("leftovers") < kinds.index("measured")
    assert reports(campaign) == [SENTENCE] * 2
    assert SENTENCE in outcome.restored


def test_what_is_removed_at_last_need_not_be_removed_by_hand(
    begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    volume = Volume(fails=(2,), in_use=True)
    volume.install(monkeypatch)
    campaign = begin(spec(faster(), **SHORT))
    outcome = campaign.run()
    assert volume.files == set()
    assert (reports(campaign), reports(campaign, "leftovers-removed")) == ([SENTENCE], [OVER])
    assert outcome.restored[-1] == OVER
    assert disturbances(campaign) == []


@pytest.mark.parametrize("stuck", [False, True])
def test_what_an_earlier_run_has_named_may_be_removed_by_the_next(
    begin: Begin, monkeypatch: pytest.MonkeyPatch, stuck: bool
) -> None:
    volume = Volume(fails=(3,), problem=KeyboardInterrupt(), stuck=True)
    volume.install(monkeypatch)
    campaign = begin(spec(faster(), **SHORT))
    assert campaign.run().campaign.state is CampaignState.PAUSED
    assert disturbances(campaign) == [SENTENCE]
    volume.stuck = stuck
    assert campaign.run().campaign.state is CampaignState.FINISHED
    # One that stays is named again when the testbed is given back.
    assert reports(campaign) == [SENTENCE] * (1 + stuck)
    assert reports(campaign, "leftovers-removed") == [OVER] * (not stuck)
    assert disturbances(campaign) == [SENTENCE] * stuck
    if not stuck:
        kinds = campaign.kinds()
        resumed = len(kinds) - kinds[::-1].index("campaign-started")
        over = kinds.index("leftovers-removed")
        assert resumed < over < kinds.index("measured", resumed)


def test_what_stays_on_one_of_several_testbeds_is_not_said_to_be_removed(
    begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    volume = Volume(fails=(3,), problem=KeyboardInterrupt(), stuck=True)
    volume.install(monkeypatch)
    campaign = begin(several(faster(), names=("a", "b"), **SHORT))
    assert campaign.run().campaign.state is CampaignState.PAUSED
    assert campaign.run().campaign.state is CampaignState.FINISHED
    assert reports(campaign, "leftovers-removed") == []
    assert disturbances(campaign) == [SENTENCE] * 2


def test_files_that_remain_are_named_again_after_others_were_removed() -> None:
    assert events_of(["a"], {"a"}) == [("leftovers", "a")]
    assert events_of(["a"], {"a", "b"}) == [
        ("leftovers-removed", REPLACED),
        ("leftovers", "a"),
    ]


def test_each_testbed_has_leftovers_of_its_own() -> None:
    def event(number: int, kind: str, message: str, **data: str) -> Event:
        return Event(number, datetime.now(UTC), kind, message, data)

    events = [
        event(1, "leftovers", "a", testbed="one"),
        event(2, "leftovers", "b", testbed="two"),
        event(3, "leftovers-removed", OVER, testbed="one"),
        event(4, "leftovers", "c", testbed="one"),
    ]
    assert [each.message for each in still_left(events)] == ["b", "c"]
    assert (sentences_on(events, "one"), sentences_on(events, "two")) == ({"c"}, {"b"})
    # The events on an only testbed do not always name it.
    events = [event(1, "leftovers", "a"), event(2, "leftovers", "b", testbed="one")]
    assert sentences_on(events, "one") == {"a", "b"}
    for data in ({}, {"testbed": "one"}):
        assert still_left([*events, event(3, "leftovers-removed", OVER, **data)]) == []
