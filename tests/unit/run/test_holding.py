"""Heartbeats of the process that holds a testbed."""

from __future__ import annotations

import time
from itertools import count
from pathlib import Path

import pytest

from tests.unit.campaign.campaigns import Campaign, spec
from tests.waiting import wait_for
from tuner.model import Lease
from tuner.run.holding import hold_testbeds
from tuner.store import Store

#: So long that no heartbeat is due while a test runs.
LIMIT_S = 36_000.0


@pytest.mark.parametrize("change_s", [7200.0, -7200.0], ids=["forward", "back"])
def test_a_clock_that_is_set_does_not_make_a_process_look_silent(
    change_s: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, times_set = time.time, count()
    with Store.open(tmp_path) as store:
        campaign = Campaign(store, spec(), tmp_path)
        beats: list[str] = []
        beat = store.beat

        def note(lease: Lease) -> bool:
            beats.append(lease.testbed)
            return beat(lease)

        monkeypatch.setattr(store, "beat", note)
        with hold_testbeds(store, campaign.id, ["here"], LIMIT_S):
            # It is set again and again, since the heartbeat's thread may not be waiting yet.
            monkeypatch.setattr(time, "time", lambda: clock() + change_s * next(times_set))
            wait_for(lambda: len(beats) > 1, "heartbeats")
