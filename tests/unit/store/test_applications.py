"""Applications are changed by several processes at once."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta

from sqlalchemy import Connection

from tests.unit.store import records
from tests.unit.store.conftest import Place
from tuner.applications import Application
from tuner.model import Event
from tuner.states import ApplicationState
from tuner.store import Store, queries
from tuner.store.applications import Applications


def application_of(campaign: str) -> Application:
    return Application(
        id="a1",
        campaign=campaign,
        state=ApplicationState.PLANNED,
        testbed="hall 7",
        section="{}",
        plan="p1",
        stepwise=False,
        programs="",
        before=records.BASELINE_CONFIGURATION,
        after=records.CANDIDATE,
        planned=records.NOON,
        planned_by="alice",
        changed=records.NOON,
        changed_by="alice",
    )


def test_a_request_waits_for_the_campaigns_other_events(store: Store, place: Place) -> None:
    """Both would get the same number."""
    campaign = store.create_campaign("c", "{}", 0, records.NOON).id
    applications = Applications(store)
    applications.add(application_of(campaign), records.event("planned"))
    under_way = threading.Event()

    def add(connection: Connection, _: object) -> Event:
        event = queries.add_event(connection, campaign, records.event("other"))
        under_way.set()
        time.sleep(0.5)  # time for the request to get as far as it can
        return event

    with place.open() as other, ThreadPoolExecutor() as pool:
        adding = pool.submit(other._change, campaign, add)
        under_way.wait(timeout=60)
        request = applications.ask("a1", ApplicationState.PLANNED, "bob", records.event("asked"))
        adding.result(timeout=60)
    assert request.asked_by == "bob"
    kinds = ["campaign-created", "planned", "other", "asked"]
    assert [event.kind for event in store.events(campaign)] == kinds


def test_what_was_applied_last_is_known_although_a_clock_was_set_back(store: Store) -> None:
    """A rollback has to begin with it."""
    campaign = store.create_campaign("c", "{}", 0, records.NOON).id
    applications = Applications(store)
    for name, hours in (("a1", 5), ("a2", 0)):
        applications.add(replace(application_of(campaign), id=name), records.event("planned"))
        for state in (ApplicationState.APPLYING, ApplicationState.COMMITTING):
            event = replace(records.event(state), at=records.NOON + timedelta(hours=hours))
            applications.move(name, state, "", "alice", event)
    assert [one.id for one in applications.in_force(testbed="hall 7")] == ["a2", "a1"]
