"""What was asked to be verified has one outcome, which names the request."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tuner.campaign.holding import this_process
from tuner.errors import ConflictError
from tuner.states import EventKind
from tuner.store import NewEvent, Store
from tuner.store.verifications import Verifications

NOW = datetime(2026, 11, 22, tzinfo=UTC)
ASKED = NewEvent(NOW, EventKind.VERIFY_REQUESTED, "somebody asked")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path) as store:
        yield store


def outcomes(store: Store, campaign: str) -> list[tuple[str, object]]:
    return [(event.kind, event.data.get("request")) for event in Verifications(store).of(campaign)]


def test_nobody_asks_again_before_the_outcome(store: Store) -> None:
    one, other = (store.create_campaign(name, "{}", 1, NOW).id for name in ("one", "other"))
    kept = Verifications(store)
    first = kept.ask(one, ASKED).number
    with pytest.raises(ConflictError, match="is being verified"):
        kept.ask(one, ASKED)
    kept.ask(other, ASKED)
    # One that nobody has asked for over HTTP is the outcome of no request.
    store.add_event(one, NewEvent(NOW, EventKind.VERIFIED, "done", {"request": None}))
    with pytest.raises(ConflictError):
        kept.ask(one, ASKED)
    store.add_event(one, NewEvent(NOW, EventKind.VERIFIED, "done", {"request": first}))
    assert kept.ask(one, ASKED).number > first


def test_a_request_fails_once_and_not_after_its_outcome(store: Store) -> None:
    campaign = store.create_campaign("one", "{}", 1, NOW).id
    kept = Verifications(store)
    first = kept.ask(campaign, ASKED).number
    kept.fail(campaign, first, "no host answers")
    kept.fail(campaign, first, "said again")
    assert kept.of(campaign)[-1].message == "not verified: no host answers"
    second = kept.ask(campaign, ASKED).number
    store.add_event(campaign, NewEvent(NOW, EventKind.VERIFIED, "done", {"request": second}))
    kept.fail(campaign, second, "too late")
    assert outcomes(store, campaign) == [
        ("verify-requested", None),
        ("verify-failed", first),
        ("verify-requested", None),
        ("verified", second),
    ]


def test_a_service_that_begins_tells_what_nobody_measures(store: Store) -> None:
    lost, measured = (store.create_campaign(name, "{}", 1, NOW).id for name in ("a", "b"))
    kept = Verifications(store)
    numbers = {campaign: kept.ask(campaign, ASKED).number for campaign in (lost, measured)}
    verification = store.create_campaign("verify b", "{}", 1, NOW).id
    whose: dict[str, str | int] = {"verifies": measured, "request": numbers[measured]}
    store.add_event(verification, NewEvent(NOW, EventKind.VERIFICATION, "it verifies", whose))
    cut_off = NewEvent(NOW, "block-void", "cut off")
    store.take_testbeds(verification, ["x"], this_process(), 3600.0, lambda _: False, cut_off)
    kept.fail_all(lambda holder: False)
    assert outcomes(store, lost)[1:] == [("verify-failed", numbers[lost])]
    assert outcomes(store, measured)[1:] == []
    kept.fail_all(lambda holder: True)
    assert outcomes(store, measured)[1:] == [("verify-failed", numbers[measured])]
    assert "it was cut off" in kept.of(measured)[-1].message
