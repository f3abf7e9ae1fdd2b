"""Every request for verification has one outcome, which has the number of the request."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tuner.errors import ConflictError
from tuner.holders import this_process
from tuner.states import EventKind
from tuner.store import NewEvent, Store
from tuner.store.verifications import Verifications

NOW = datetime(2026, 11, 22, tzinfo=UTC)
REQUEST = NewEvent(NOW, EventKind.VERIFY_REQUESTED, "somebody asked")


def outcomes(store: Store, campaign: str) -> list[tuple[str, object]]:
    return [(event.kind, event.data.get("request")) for event in Verifications(store).of(campaign)]


def test_no_second_request_before_the_outcome(store: Store) -> None:
    one, other = (store.create_campaign(name, "{}", 1, NOW).id for name in ("one", "other"))
    verifications = Verifications(store)
    first = verifications.ask(one, REQUEST).number
    with pytest.raises(ConflictError, match="is being verified"):
        verifications.ask(one, REQUEST)
    verifications.ask(other, REQUEST)
    # A verification that was not requested over HTTP is not the outcome of any request.
    store.add_event(one, NewEvent(NOW, EventKind.VERIFIED, "done", {"request": None}))
    with pytest.raises(ConflictError):
        verifications.ask(one, REQUEST)
    store.add_event(one, NewEvent(NOW, EventKind.VERIFIED, "done", {"request": first}))
    assert verifications.ask(one, REQUEST).number > first


def test_a_request_fails_once_and_not_after_its_outcome(store: Store) -> None:
    campaign = store.create_campaign("one", "{}", 1, NOW).id
    verifications = Verifications(store)
    first = verifications.ask(campaign, REQUEST).number
    verifications.fail(campaign, first, "no host answers")
    verifications.fail(campaign, first, "said again")
    assert verifications.of(campaign)[-1].message == "not verified: no host answers"
    second = verifications.ask(campaign, REQUEST).number
    store.add_event(campaign, NewEvent(NOW, EventKind.VERIFIED, "done", {"request": second}))
    verifications.fail(campaign, second, "too late")
    assert outcomes(store, campaign) == [
        ("verify-requested", None),
        ("verify-failed", first),
        ("verify-requested", None),
        ("verified", second),
    ]


def test_a_starting_service_fails_requests_that_nobody_measures(store: Store) -> None:
    lost, measured = (store.create_campaign(name, "{}", 1, NOW).id for name in ("a", "b"))
    verifications = Verifications(store)
    numbers = {
        campaign: verifications.ask(campaign, REQUEST).number for campaign in (lost, measured)
    }
    verification = store.create_campaign("verify b", "{}", 1, NOW).id
    whose: dict[str, str | int] = {"verifies": measured, "request": numbers[measured]}
    store.add_event(verification, NewEvent(NOW, EventKind.VERIFICATION, "it verifies", whose))
    cut_off = NewEvent(NOW, "block-void", "cut off")
    store.take_testbeds(verification, ["x"], this_process(), 3600.0, lambda _: False, cut_off)
    verifications.fail_all(lambda holder: False, NOW)
    assert outcomes(store, lost)[1:] == []  # its process may be starting
    later = NOW + timedelta(seconds=1)
    verifications.fail_all(lambda holder: False, later)
    assert outcomes(store, lost)[1:] == [("verify-failed", numbers[lost])]
    assert outcomes(store, measured)[1:] == []
    verifications.fail_all(lambda holder: True, later)
    assert outcomes(store, measured)[1:] == [("verify-failed", numbers[measured])]
    assert "it was cut off" in verifications.of(measured)[-1].message
