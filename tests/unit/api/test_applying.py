"""Planning, applying, verifying and rolling back a recommendation over HTTP."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from typing import Any

import pytest
from starlette.testclient import TestClient

from api import starting
from api.app import create_app
from api.lost_requests import STARTING
from tests.ending import kill_runs
from tests.recommending import recommending
from tests.unit.api.conftest import Guarded, fstune
from tests.unit.api.test_conventions import is_problem
from tests.unit.apply.conftest import CANDIDATE, ORIGINAL, Desk
from tests.unit.apply.test_outside import change_elsewhere
from tests.unit.campaign.campaigns import failing, faster, spec
from tests.waiting import wait_for
from tuner.states import EventKind
from tuner.store import NewEvent, Store
from tuner.store.verifications import Verifications
from tuner.tokens import Scope


def recommending_campaign(guarded: Guarded, *effects: dict[str, object]) -> str:
    """Create a campaign with a recommendation and return its path."""
    with Store.open(guarded.directory) as store:
        specification = spec(*effects, found=ORIGINAL)
        return f"/v1/campaigns/{recommending(store, specification, ORIGINAL, CANDIDATE).id}"


def verifications(guarded: Guarded, campaign: str) -> list[dict[str, Any]]:
    """The verifications of a campaign, as listed by the service."""
    path, headers = f"{campaign}/verifications", guarded.headers(Scope.READ)
    listed = guarded.client.get(path, headers=headers).json()
    assert isinstance(listed, list)
    return listed


def post(guarded: Guarded, path: str, **more: Any) -> Any:
    return guarded.client.post(path, headers=guarded.headers(Scope.ADMIN), **more)


def newest(guarded: Guarded, campaign: str) -> dict[str, Any]:
    answer = guarded.client.get(f"{campaign}/applications", headers=guarded.headers(Scope.READ))
    application = answer.json()[0]
    assert isinstance(application, dict)
    return application


def recommendation_page(guarded: Guarded, campaign: str) -> str:
    path = f"{campaign.removeprefix('/v1')}/recommendation"
    headers = guarded.headers(Scope.READ) | {"Accept": "text/html"}
    return guarded.client.get(path, headers=headers).text


@pytest.mark.slow
def test_a_plan_is_applied_by_its_identity_and_rolled_back(guarded: Guarded) -> None:
    campaign = recommending_campaign(guarded)
    answer = post(guarded, f"{campaign}/plans", json={"step": True})
    assert answer.status_code == 201, answer.text
    plan = answer.json()
    assert plan["application"]["before"] == ORIGINAL
    assert plan["application"]["planned_by"] == "for admin, over HTTP"
    assert [change["name"] for change in plan["parts"][0]["changes"]] == [
        "fileserver.dir_buffers",
        "fileserver.threads",
    ]
    assert len(plan["steps"]) == 2
    response = post(guarded, f"{campaign}/plans/{plan['identity']}/apply")
    assert response.status_code == 202, response.text
    wait_for(lambda: newest(guarded, campaign)["state"] not in ("planned", "applying"))
    wait_for(lambda: newest(guarded, campaign)["state"] != "committing")
    applied = newest(guarded, campaign)
    assert (applied["state"], applied["changed_by"]) == ("applied", "for admin, over HTTP")
    undo = f"to undo it: <code>fstune rollback {applied['id']}</code>"
    assert undo in recommendation_page(guarded, campaign)
    again = post(guarded, f"{campaign}/plans", json={})
    assert (again.status_code, again.json()["application"]) == (200, None), again.text
    assert again.json()["before"] == again.json()["after"]
    in_force = "/v1/applications?in_force={}"
    headers = guarded.headers(Scope.READ)
    applications = guarded.client.get(in_force.format("true"), headers=headers).json()
    assert [one["id"] for one in applications] == [applied["id"]]

    back = post(guarded, f"{campaign}/rollback")
    assert back.status_code == 202, back.text
    wait_for(lambda: newest(guarded, campaign)["state"] == "rolled_back")
    assert newest(guarded, campaign)["changed_by"] == "for admin, over HTTP"
    page = recommendation_page(guarded, campaign)
    assert '<span class="state rolled_back">rolled back</span>' in page
    assert "to undo it" not in page
    assert guarded.client.get(in_force.format("true"), headers=headers).json() == []
    assert len(guarded.client.get(in_force.format("false"), headers=headers).json()) == 1
    assert is_problem(post(guarded, f"{campaign}/rollback"), 404)


@pytest.mark.slow
def test_a_rollback_replaces_nothing_that_was_changed_after_the_application(
    guarded: Guarded,
) -> None:
    campaign = recommending_campaign(guarded)
    name = campaign.rpartition("/")[2]
    fstune(guarded.directory, "apply", name, "--yes")
    with Store.open(guarded.directory) as store:
        desk = Desk(store, guarded.directory)
        now = change_elsewhere(desk, store.campaign(name), 99)
        answer = post(guarded, f"{campaign}/rollback")
        assert is_problem(answer, 409)
        assert "--replace; changed: " in answer.json()["detail"]
        assert "threads is 99, where 200 was applied" in answer.json()["detail"]
        assert "rollback-requested" not in desk.events(store.campaign(name))
        assert desk.in_force(store.campaign(name)) == now
    assert newest(guarded, campaign)["state"] == "applied"


@pytest.mark.slow
def test_a_stale_plan_has_its_own_problem_type(guarded: Guarded) -> None:
    campaign = recommending_campaign(guarded)
    plan = post(guarded, f"{campaign}/plans", json={}).json()
    fstune(guarded.directory, "apply", campaign.rpartition("/")[2], "--yes", "--step")
    answer = post(guarded, f"{campaign}/plans/{plan['identity']}/apply")
    assert is_problem(answer, 409)
    assert answer.json()["type"] == "urn:fstune:stale-plan"
    assert "make a new plan" in answer.json()["detail"]


@pytest.mark.slow
def test_a_failure_is_recorded_in_the_application(guarded: Guarded) -> None:
    campaign = recommending_campaign(guarded, failing("start"))
    plan = post(guarded, f"{campaign}/plans", json={}).json()
    assert post(guarded, f"{campaign}/plans/{plan['identity']}/apply").status_code == 202
    wait_for(lambda: newest(guarded, campaign)["state"] == "failed")
    assert "does not start" in newest(guarded, campaign)["reason"]


@pytest.mark.slow
def test_an_applied_configuration_is_verified(guarded: Guarded) -> None:
    campaign = recommending_campaign(guarded, faster(-0.2))
    fstune(guarded.directory, "apply", campaign.rpartition("/")[2], "--yes")
    assert is_problem(post(guarded, f"{campaign}/verifications", json={"blocks": 2}), 422)
    request = post(guarded, f"{campaign}/verifications", json={"blocks": 4})
    assert request.status_code == 202, request.text
    assert request.json()["state"] == "requested"
    assert request.json()["text"] == "for admin, over HTTP asked to verify it in 4 blocks"
    twice = post(guarded, f"{campaign}/verifications", json={"blocks": 4})
    assert is_problem(twice, 409)
    assert "is being verified" in twice.json()["detail"]

    def results() -> list[dict[str, Any]]:
        headers = guarded.headers(Scope.READ)
        rows = guarded.client.get(request.headers["location"], headers=headers).json()
        return [one for one in rows if one["number"] > request.json()["number"]]

    wait_for(lambda: bool(results()))
    (done,) = results()
    assert (done["state"], done["outcome"], done["blocks"]) == ("done", "holds", 4), done
    assert done["request"] == request.json()["number"]
    assert done["text"].startswith("for admin, over HTTP verified it: the certificate holds")
    assert done["upper"] < 1.0
    measured = guarded.client.get(
        f"/v1/campaigns/{done['verification']}", headers=guarded.headers(Scope.READ)
    )
    assert measured.json()["state"] == "finished"


@pytest.mark.slow
def test_a_verification_that_cannot_be_measured_says_why(guarded: Guarded) -> None:
    campaign = recommending_campaign(guarded, failing("start"))
    request = post(guarded, f"{campaign}/verifications", json={"blocks": 3}).json()
    path = f"{campaign}/verifications"

    def last() -> dict[str, Any]:
        row = guarded.client.get(path, headers=guarded.headers(Scope.READ)).json()[-1]
        assert isinstance(row, dict)
        return row

    wait_for(lambda: last()["number"] > request["number"])
    assert (last()["state"], last()["outcome"]) == ("failed", None)
    assert last()["request"] == request["number"]
    # The thread that waits for the process sees that the process recorded its own result.
    name = f"verify-{campaign.rpartition('/')[2]}"
    wait_for(lambda: all(thread.name != name for thread in threading.enumerate()))
    rows = guarded.client.get(path, headers=guarded.headers(Scope.READ)).json()
    assert [one["state"] for one in rows] == ["requested", "failed"]
    assert "does not start" in last()["text"]


def test_a_verification_with_unknown_fields_is_still_listed(guarded: Guarded) -> None:
    """Another release may have stored them."""
    data: dict[str, Any] = {
        "campaign": ["x"],
        "request": "first",
        "outcome": "confirmed",
        "ratio": 0.9,
        "lower": "low",
        "caveat": ["x"],
        "blocks": 4,
        "number": 7,
    }
    with Store.open(guarded.directory) as store:
        campaign = store.create_campaign("old", "{}", 1, datetime.now(UTC)).id
        message = "verified long ago"
        event = NewEvent(datetime.now(UTC), EventKind.VERIFIED, message, data)
        number = store.add_event(campaign, event).number
    (row,) = verifications(guarded, f"/v1/campaigns/{campaign}")
    assert (row["number"], row["state"], row["text"]) == (number, "done", "verified long ago")
    assert (row["ratio"], row["blocks"], row["caveat"]) == (0.9, 4, "")
    unknown = ("verification", "request", "outcome", "lower", "upper")
    assert [row[name] for name in unknown] == [None] * 5


@pytest.mark.slow
def test_a_verification_that_does_not_start_can_be_requested_again(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = recommending_campaign(guarded)
    starts: list[int] = []

    def fail(run: object) -> None:
        starts.append(1)
        raise OSError("no process can be made")

    monkeypatch.setattr(starting, "_start_process", fail)
    for _ in range(2):
        with pytest.raises(OSError, match="no process"):
            post(guarded, f"{campaign}/verifications", json={"blocks": 3})
    assert len(starts) == 2
    rows = verifications(guarded, campaign)
    assert [one["state"] for one in rows] == ["requested", "failed"] * 2
    assert rows[3]["request"] == rows[2]["number"]


@pytest.mark.slow
def test_a_killed_verification_is_recorded_as_failed(guarded: Guarded) -> None:
    campaign = recommending_campaign(guarded)
    request = post(guarded, f"{campaign}/verifications", json={"blocks": 500}).json()

    with Store.open(guarded.directory) as store:
        wait_for(lambda: bool(store.leases()))
        kill_runs(store)
    wait_for(lambda: len(verifications(guarded, campaign)) == 2)
    assert (
        verifications(guarded, campaign)[1]["state"],
        verifications(guarded, campaign)[1]["request"],
    ) == ("failed", request["number"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("status", "text"),
    [
        (-9, "its process was killed by signal 9"),
        # The status of a child that someone else has waited for.
        (0, "its process ended without a message"),
        (6, "its log cannot be read"),
    ],
)
def test_a_verification_that_ends_without_an_outcome_is_recorded_as_failed(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch, status: int, text: str
) -> None:
    class EndedProcess:
        def wait(self) -> int:
            return status

    campaign = recommending_campaign(guarded)
    monkeypatch.setattr(starting, "_start_process", lambda run: EndedProcess())
    request = post(guarded, f"{campaign}/verifications", json={"blocks": 3}).json()

    wait_for(lambda: len(verifications(guarded, campaign)) == 2)
    assert (
        verifications(guarded, campaign)[1]["state"],
        verifications(guarded, campaign)[1]["request"],
    ) == ("failed", request["number"])
    assert text in verifications(guarded, campaign)[1]["text"]


@pytest.mark.slow
def test_a_starting_service_fails_interrupted_verifications(guarded: Guarded) -> None:
    campaign = recommending_campaign(guarded)
    event = NewEvent(datetime.now(UTC) - 2 * STARTING, EventKind.VERIFY_REQUESTED, "somebody asked")
    with Store.open(guarded.directory) as store:
        name = campaign.rpartition("/")[2]
        request = Verifications(store).ask(name, event)
        with TestClient(create_app(guarded.directory)):
            pass
        failed = Verifications(store).of(name)[-1]
    assert (failed.kind, failed.data) == (EventKind.VERIFY_FAILED, {"request": request.number})


@pytest.mark.slow
def test_the_operate_scope_does_not_permit_applying(guarded: Guarded) -> None:
    campaign = recommending_campaign(guarded)
    headers = guarded.headers(Scope.OPERATE)
    for path in ("plans", f"plans/{'0' * 32}/apply", "rollback", "verifications"):
        refused = guarded.client.post(f"{campaign}/{path}", headers=headers, json={})
        assert is_problem(refused, 403)
    assert is_problem(post(guarded, f"{campaign}/plans/{'0' * 32}/apply"), 404)
