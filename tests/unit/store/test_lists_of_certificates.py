"""A list of campaigns is read with a few queries, however many certificates are in it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest

from tests.counting import calls_of
from tests.unit.store import records
from tuner.model import Aspect
from tuner.results import expiry
from tuner.results.expiry import expired, expiries, with_expiries, with_expiry
from tuner.store import NewEvent, Store
from tuner.store.pages import Pages

CERTIFIED, OTHER = "dafileserver 1.8.9", "dafileserver 1.8.10"
#: The result of a verification that found less than was certified.
LESS = {"ratio": 0.98, "lower": 0.97, "upper": 0.99, "confidence": 0.95}


@pytest.fixture
def count_reads(store: Store, monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Return a function that returns the number of transactions since its last call."""
    return calls_of(monkeypatch, store._database, "read")


def ran(store: Store, testbed: str, at: datetime, identity: str = CERTIFIED) -> str:
    """Store a campaign that found these programs on a testbed, and return its identifier."""
    campaign = store.create_campaign("on " + testbed, "{}", 1, at).id
    store.set_measured_with(campaign, {"testbed": Aspect(testbed, {})})
    store.add_event(campaign, NewEvent(at, "testbed-ready", "ready", {"identity": identity}))
    return campaign


def certified(store: Store, testbed: str, minutes: int) -> str:
    at = records.NOON + timedelta(minutes=minutes)
    campaign = ran(store, testbed, at)
    store.add_trials(campaign, [(records.trial(number), records.event()) for number in (0, 1)])
    event = NewEvent(at, "recommendation", "faster")
    store.save_recommendation(campaign, records.recommendation(), event)
    return campaign


def verified(store: Store, campaign: str, by: str, **data: str | float) -> None:
    outcome = {"campaign": by, "elsewhere": False, **LESS, **data}
    store.add_event(campaign, NewEvent(records.NOON, "verified", "verified", outcome))


@pytest.mark.parametrize("at_once", [2, 1000])
def test_each_certificate_of_a_list_has_its_own_caveats(
    store: Store, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(expiry, "_AT_ONCE", at_once)
    hour = records.NOON + timedelta(hours=1)
    alone, unchanged, expired_one, later_one, less, holds = (
        certified(store, testbed, minute)
        for minute, testbed in enumerate(["a", "b", "c", "c", "d", "e"])
    )
    ran(store, "b", hour)
    ran(store, "c", hour, CERTIFIED)
    newest = ran(store, "c", hour + timedelta(minutes=1), OTHER)
    # Created, but it never ran there.
    other = store.create_campaign("never", "{}", 1, hour + timedelta(hours=1)).id
    store.set_measured_with(other, {"testbed": Aspect("c", {})})
    verified(store, less, ran(store, "d", hour), outcome="no longer holds")
    verified(store, holds, ran(store, "e", hour, OTHER), outcome="holds", **_as_certified())
    last = certified(store, "c", 180)
    campaigns = store.campaigns()
    reasons = expiries(store, campaigns)
    assert set(reasons) == {alone, unchanged, expired_one, later_one, less, holds, last}
    # The newest campaign there is the last one, which found it as it was.
    assert not any(reasons.values())
    found_later = ran(store, "c", hour + timedelta(hours=9), OTHER)
    reasons = expiries(store, campaigns)
    assert {name for name, why in reasons.items() if why} == {expired_one, later_one, last}
    for name in (expired_one, later_one, last):
        assert reasons[name].startswith(f"expired: campaign {found_later} found this testbed")
    assert newest not in reasons[expired_one]
    after = with_expiries(store, campaigns)
    assert [c.id for c in after] == [c.id for c in campaigns]
    notes = {c.id: c.recommendation.notes for c in after if c.recommendation is not None}
    assert notes[less][0].startswith("verified on ")
    assert {name for name, some in notes.items() if some} == {expired_one, later_one, last, less}
    # One campaign by itself has the same.
    assert after == [with_expiry(store, campaign) for campaign in campaigns]
    assert [reasons.get(c.id, "") for c in campaigns] == [expired(store, c) for c in campaigns]


def _as_certified() -> dict[str, float]:
    answer = records.recommendation()
    assert None not in (answer.ratio, answer.lower, answer.upper)
    return {"ratio": answer.ratio or 0, "lower": answer.lower or 0, "upper": answer.upper or 0}


def test_a_list_takes_as_many_queries_as_one_campaign(
    store: Store, count_reads: Callable[[], int]
) -> None:
    for minute in range(12):
        campaign = certified(store, "abc"[minute % 3], minute)
        verified(store, campaign, ran(store, "d", records.NOON), outcome="holds")
    hour = records.NOON + timedelta(hours=1)
    for testbed in "abc":
        ran(store, testbed, hour, OTHER)
    campaigns = Pages(store).with_answer(100)
    count_reads()
    assert sum(map(bool, expiries(store, campaigns).values())) == 12
    assert count_reads() == 3
    assert len(with_expiries(store, campaigns)) == 12
    assert count_reads() == 3
    assert expiries(store, []) == {}
    assert with_expiries(store, []) == []
    assert count_reads() == 0
