"""A campaign on a testbed with hours, from the command line: it waits, then continues."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml

from tests.unit.campaign.campaigns import faster, spec
from tests.unit.cli.conftest import Fstune, process_of
from tests.waiting import wait_for
from tuner.cli import run as commands
from tuner.errors import INTERRUPTED, InUseError
from tuner.holders import is_gone, this_process
from tuner.model import Lease, Wish
from tuner.records.standing import Observer
from tuner.run import waiting
from tuner.run.steering import steer
from tuner.run.waiting import is_waited_for
from tuner.services.simulated import SimulatedTestbed
from tuner.services.testbed import Unavailable
from tuner.states import CampaignState
from tuner.store import NewEvent, Store
from tuner.work.ending import continues_at

pytestmark = pytest.mark.slow

REASON = "outside the hours of testbed x (20:00 to 06:00)"
LIMIT_S = 60.0
#: Questions before the hours end: the pilot is measured within them.
WITHIN = 3


@pytest.fixture
def hours(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the hours of the simulated testbed end after some blocks, for a moment."""
    questions = iter(range(10_000))

    def answer(testbed: SimulatedTestbed) -> Unavailable | None:
        if next(questions) != WITHIN:
            return None
        return Unavailable(REASON, datetime.now().astimezone() + timedelta(seconds=0.2))

    monkeypatch.setattr(SimulatedTestbed, "unavailable", answer)
    monkeypatch.setattr(waiting, "_LOOK_S", 0.05)


@pytest.mark.usefixtures("hours")
def test_a_campaign_waits_for_the_hours_of_its_testbed_and_continues(
    fstune: Fstune, campaign_file: Path, state: Path
) -> None:
    done = fstune("run", campaign_file)
    assert done.returncode == 0, done.stderr
    assert f"campaign paused: {REASON}" in " ".join(done.stdout.split())
    assert "this process continues the campaign at" in done.stdout
    with Store.open(state) as store:
        kinds = [event.kind for event in store.events(store.campaign("last").id)]
    assert kinds.count("campaign-started") == 2
    assert kinds.index("campaign-paused") < kinds.index("campaign-waits")


@pytest.mark.usefixtures("hours")
def test_the_log_of_a_campaign_names_when_it_continues(fstune: Fstune, campaign_file: Path) -> None:
    done = fstune("run", campaign_file, "--log", "json")
    lines = [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")]
    paused = next(line for line in lines if line["event"] == "campaign-paused")
    assert datetime.fromisoformat(paused["until"]).tzinfo is not None
    assert [line["event"] for line in lines].count("campaign-started") == 2


@pytest.mark.usefixtures("hours")
@pytest.mark.parametrize("quicker", [False, True])
def test_a_testbed_that_others_use_when_its_hours_start_is_waited_for(
    fstune: Fstune,
    campaign_file: Path,
    state: Path,
    monkeypatch: pytest.MonkeyPatch,
    quicker: bool,
) -> None:
    """A campaign that waited for the same hours may be ``quicker`` at the last moment, too."""
    document = yaml.safe_load(campaign_file.read_text())
    document["testbed"]["simulated"]["name"] = "x"
    campaign_file.write_text(yaml.safe_dump(document))
    leases: list[Lease] = []
    looks: list[bool] = []

    def contended(
        store: Store,
        campaign: str,
        until: datetime,
        observer: Observer,
        *,
        is_free: Callable[[], bool],
    ) -> bool:
        def look() -> bool:
            looks.append(is_free())
            if not looks[-1]:
                store.give_back(leases[0])
            return looks[-1]

        is_first = not leases
        if is_first:
            now = datetime.now(UTC)
            rival = store.create_campaign("rival", "{}", 1, now).id
            event = NewEvent(now, "block-void", "")
            holder = this_process()
            leases.extend(
                store.take_testbeds(rival, ["simulated x"], holder, LIMIT_S, is_gone, event)
            )
        free = (lambda: True) if is_first and quicker else look
        return waiting.wait(store, campaign, until, observer, is_free=free)

    monkeypatch.setattr(commands, "wait", contended)
    monkeypatch.setattr(waiting, "_AGAIN", timedelta(0))
    done = fstune("run", campaign_file)
    assert done.returncode == 0, done.stderr
    assert looks == [False, True]
    assert done.stdout.count("its testbed is in use by others") == 1


def test_a_testbed_in_use_is_refused_at_first(
    fstune: Fstune, campaign_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise InUseError("testbed simulated x is in use by campaign c9")

    monkeypatch.setattr(commands, "conduct", refuse)
    done = fstune("run", campaign_file)
    assert done.returncode == InUseError.exit_code
    assert "is in use by campaign c9" in done.stderr


@pytest.mark.parametrize("from_queue", [False, True])
def test_only_a_worker_tries_again_when_others_hold_a_host(
    fstune: Fstune,
    campaign_file: Path,
    state: Path,
    monkeypatch: pytest.MonkeyPatch,
    from_queue: bool,
) -> None:
    def refuse(*_: object) -> None:
        raise InUseError("fs9 is in use by campaign c9")

    monkeypatch.setattr(SimulatedTestbed, "open", refuse)
    assert fstune("run", campaign_file).returncode == InUseError.exit_code
    options = ["--from-queue"] if from_queue else []
    done = fstune("resume", "last", *options)
    assert done.returncode == (INTERRUPTED if from_queue else InUseError.exit_code)
    with Store.open(state) as store:
        campaign = store.campaign("last")
        expected = CampaignState.PAUSED if from_queue else CampaignState.FAILED
        assert (campaign.state, campaign.reason) == (expected, "fs9 is in use by campaign c9")
        until = continues_at(store.events(campaign.id))
        assert (until is not None) == from_queue


def steer_once_it_waits(state: Path, wish: Wish) -> None:
    """Steer the campaign that waits in this process; in vain, interrupt it."""
    try:
        with Store.open(state) as store:
            wait_for(
                lambda: any(is_waited_for(store, each) for each in store.campaigns()),
                "a campaign that waits",
                most_s=LIMIT_S,
            )
            steer(store, store.campaign("last"), wish, "elsewhere", datetime.now(UTC))
    except BaseException:
        os.kill(os.getpid(), signal.SIGINT)
        raise


@pytest.mark.parametrize("act", ["pause", "cancel"])
def test_a_waiting_campaign_is_paused_or_cancelled_from_elsewhere(
    fstune: Fstune,
    campaign_file: Path,
    state: Path,
    monkeypatch: pytest.MonkeyPatch,
    act: str,
) -> None:
    until = datetime.now().astimezone() + timedelta(hours=2)
    monkeypatch.setattr(SimulatedTestbed, "unavailable", lambda testbed: Unavailable(REASON, until))
    monkeypatch.setattr(waiting, "_LOOK_S", 0.05)
    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(steer_once_it_waits, state, Wish(act))
        done = fstune("run", campaign_file)
    assert other.exception() is None
    assert done.returncode == INTERRUPTED
    expected = "paused; continue with: fstune resume" if act == "pause" else "cancelled"
    assert f"fstune: {expected}" in done.stderr


def test_a_watched_campaign_that_waits_is_watched_on(
    environment: dict[str, str], state: Path
) -> None:
    """Until somebody decides that it stays paused."""
    with Store.open(state) as store:
        of = spec(faster())
        campaign = store.create_campaign("night", of.to_json(), of.seed, datetime.now(UTC))
        for kind, to, data in (
            ("campaign-started", CampaignState.RUNNING, {}),
            ("campaign-paused", CampaignState.PAUSED, {"until": "2026-03-01T20:00:00+00:00"}),
        ):
            event = NewEvent(datetime.now(UTC), kind, kind, data)
            store.move_campaign(campaign.id, to, "", event)
        store.add_event(campaign.id, NewEvent(datetime.now(UTC), "campaign-waits", "it waits"))
        with process_of(environment, "watch", campaign.id) as process:
            assert process.stdout is not None
            while "it waits" not in process.stdout.readline():
                assert process.poll() is None
            steer(store, store.campaign(campaign.id), Wish.PAUSE, "elsewhere", datetime.now(UTC))
            rest, _ = process.communicate(timeout=LIMIT_S)
            assert process.returncode == INTERRUPTED
    assert "to stay paused, as requested from elsewhere" in rest
