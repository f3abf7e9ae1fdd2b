"""Requests about applications, and which answers of the server are taken as their outcome."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import httpx2
import pytest

from api.application_documents import ApplicationDocument, PlanDocument
from tests.unit.apply.conftest import Desk, desk
from tests.unit.remote.test_client import Server, client, problem
from tuner.apply.applying import make_plan
from tuner.errors import (
    ConflictError,
    NotFoundError,
    ServerError,
    StalePlanError,
    TestbedError,
    TunerError,
)
from tuner.remote.applications import RemoteApplications
from tuner.states import ApplicationState, VerifyOutcome

__all__ = ["desk"]

CAMPAIGN = "20261122-094652-d6fg"


def at(server: Server) -> RemoteApplications:
    return RemoteApplications(client(server), pause=lambda seconds: None)


def answer(document: Any) -> httpx2.Response:
    return httpx2.Response(200, json=document)


def outcome(number: int, state: str, request: int | None = None, **more: object) -> dict[str, Any]:
    return {"number": number, "state": state, "request": request, "text": f"#{number}"} | more


MEASURED = {
    "outcome": "holds",
    "ratio": 0.9,
    "lower": 0.8,
    "upper": 0.95,
    "confidence": 0.95,
    "blocks": 4,
    "reason": "a test says so",
    "verification": "20261122-095108-wk56",
}


def test_only_the_outcome_of_the_own_request_is_taken() -> None:
    mine, other = outcome(10, "requested"), outcome(11, "requested")
    refused = outcome(12, "failed", 11)
    server = Server(
        answer(mine),
        answer([mine, other, refused]),
        answer([mine, other, refused, outcome(13, "done", None, **MEASURED)]),
        answer([mine, other, refused, outcome(14, "done", 10, **MEASURED)]),
    )
    verification, result = at(server).verify(CAMPAIGN, 4)
    assert (verification, result.outcome) == ("20261122-095108-wk56", VerifyOutcome.HOLDS)
    assert server.answers == []


def test_a_failed_verification_is_reported_with_its_reason() -> None:
    server = Server(answer(outcome(10, "requested")), answer([outcome(11, "failed", 10)]))
    with pytest.raises(ConflictError, match="#11"):
        at(server).verify(CAMPAIGN, 4)


AWAY = (
    httpx2.ConnectError("refused"),
    httpx2.Response(502, text="<html>"),
    problem(503, "store", "no connection"),
    problem(429, "too-many", "later"),
)


def test_a_service_that_is_restarted_is_waited_for() -> None:
    outages: list[httpx2.Response | Exception] = [*AWAY] * 10
    done = answer([outcome(14, "done", 10, **MEASURED)])
    server = Server(answer(outcome(10, "requested")), *outages, answer([]), *outages, done)
    verification, _ = at(server).verify(CAMPAIGN, 4)
    assert verification == "20261122-095108-wk56"
    assert server.answers == []


@pytest.mark.slow
def test_an_application_outlasts_a_restart_of_the_service(desk: Desk) -> None:
    application = replace(desk.plan(desk.campaign()), campaign=CAMPAIGN)
    document = ApplicationDocument.of(application).model_dump(mode="json")
    outages: list[httpx2.Response | Exception] = [*AWAY] * 10
    server = Server(answer(document), *outages, answer([document]))
    assert at(server).apply(application).id == application.id


@pytest.mark.parametrize("away", AWAY)
def test_a_service_that_stays_away_is_given_up(away: httpx2.Response | Exception) -> None:
    """Wherever it is away for ten minutes: the earlier outage does not count."""
    now_s = [0.0]

    def wait(seconds: float) -> None:
        now_s[0] += seconds

    server = Server(answer(outcome(10, "requested")), *[away] * 400, answer([]), *[away] * 3000)
    waiting = RemoteApplications(client(server), pause=wait, clock=lambda: now_s[0])
    where = f"see https://tuning.example.org/v1/campaigns/{CAMPAIGN}/applications"
    hint = f"given up after 10 min; it may continue there: {where}"
    with pytest.raises(ServerError, match=hint):
        waiting.verify(CAMPAIGN, 4)
    assert 700.0 < now_s[0] < 720.0


@pytest.mark.slow
def test_a_plan_is_read_unchanged(desk: Desk) -> None:
    campaign = desk.campaign()
    plan, application = make_plan(desk.actor, campaign, desk.destination(campaign), stepwise=True)
    document = PlanDocument.of(plan, application).model_dump(mode="json")
    read, planned = at(Server(answer(document))).plan(CAMPAIGN, stepwise=True)
    assert read == plan
    assert planned is not None
    assert planned.plan == plan.identity
    wrong = document | {"after": document["before"]}
    with pytest.raises(ServerError, match="not the one that its identity belongs to"):
        at(Server(answer(wrong))).plan(CAMPAIGN, stepwise=True)


@pytest.mark.slow
def test_a_plan_that_changes_nothing_is_not_an_error(desk: Desk) -> None:
    campaign = desk.campaign()
    desk.apply(campaign)
    plan, application = make_plan(desk.actor, campaign, desk.destination(campaign))
    document = PlanDocument.of(plan, application).model_dump(mode="json")
    assert at(Server(answer(document))).plan(CAMPAIGN, stepwise=False) == (plan, None)


@pytest.mark.slow
def test_applications_that_may_be_in_force_newest_first(desk: Desk) -> None:
    one = desk.apply(desk.campaign())
    cut_off = replace(one, id="a2", state=ApplicationState.ROLLING_BACK)
    rolled_back = replace(one, id="a3", state=ApplicationState.ROLLED_BACK)
    documents = [
        ApplicationDocument.of(each).model_dump(mode="json") for each in (rolled_back, cut_off, one)
    ]
    server = Server(answer(documents), answer(documents[1:]))
    assert [each.id for each in at(server).in_force(CAMPAIGN)] == ["a2", one.id]
    assert [each.id for each in at(server).in_force("last")] == ["a2", one.id]
    assert [request.url.path for request in server.requests] == [
        f"/v1/campaigns/{CAMPAIGN}/applications",
        "/v1/applications",
    ]
    assert server.requests[1].url.query == b"in_force=true"


@pytest.mark.slow
@pytest.mark.parametrize(
    "lost", [httpx2.ReadTimeout("too long"), problem(504, "gateway", "no answer in time")]
)
def test_an_inspection_of_hosts_may_take_long_and_outlast_the_connection(
    desk: Desk, lost: httpx2.Response | Exception
) -> None:
    where = f"see https://tuning.example.org/v1/campaigns/{CAMPAIGN}/applications"
    server = Server(lost)
    with pytest.raises(ServerError, match=where):
        at(server).plan(CAMPAIGN, stepwise=False)
    application = replace(desk.plan(desk.campaign()), campaign=CAMPAIGN)
    server.answers.append(lost)
    with pytest.raises(ServerError, match=where):
        at(server).apply(application)
    assert [request.extensions["timeout"]["read"] for request in server.requests] == [900.0, 900.0]


def test_a_request_that_acts_on_hosts_may_outlast_the_connection() -> None:
    where = f"see https://tuning.example.org/v1/campaigns/{CAMPAIGN}/applications"
    lost = httpx2.ReadTimeout("too long")
    with pytest.raises(ServerError, match=where):
        at(Server(lost)).roll_back(CAMPAIGN)
    with pytest.raises(ServerError, match=where):
        at(Server(lost)).verify(CAMPAIGN, 4)


@pytest.mark.parametrize(
    ("refusal", "kind"),
    [
        (problem(502, "testbed", "fs1 is down"), TestbedError),
        (problem(409, "stale-plan", "it has changed"), StalePlanError),
        (problem(429, "too-many", "later"), ServerError),
        (problem(503, "too-many", "too busy"), ServerError),
    ],
)
def test_what_was_refused_does_not_continue(
    refusal: httpx2.Response, kind: type[TunerError]
) -> None:
    with pytest.raises(kind) as refused:
        at(Server(refusal)).plan(CAMPAIGN, stepwise=False)
    assert "may continue" not in str(refused.value)


def test_a_proxy_without_an_answer_leaves_the_outcome_open() -> None:
    proxy = httpx2.Response(502, text="<html>")
    with pytest.raises(ServerError, match="502 Bad Gateway; it may continue there"):
        at(Server(proxy)).roll_back(CAMPAIGN)


@pytest.mark.slow
def test_an_application_that_is_deleted_meanwhile_ends_the_wait(desk: Desk) -> None:
    application = desk.plan(desk.campaign())
    document = answer(ApplicationDocument.of(application).model_dump(mode="json"))
    with pytest.raises(NotFoundError, match=f"{application.id} no longer exists"):
        at(Server(document, answer([]))).apply(application)
