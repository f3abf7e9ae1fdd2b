"""What is recommended is planned, applied and rolled back over HTTP."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from starlette.testclient import TestClient

from api import starting
from api.app import create_app
from tests.ending import kill_runs
from tests.recommending import recommending
from tests.unit.api.conftest import Guarded, fstune
from tests.unit.api.test_conventions import is_problem
from tests.unit.apply.conftest import CANDIDATE, ORIGINAL
from tests.unit.campaign.campaigns import failing, faster, spec
from tuner.states import EventKind
from tuner.store import NewEvent, Store
from tuner.store.verifications import Verifications
from tuner.tokens import Scope

_PATIENCE_S = 120.0


def stored(guarded: Guarded, *effects: dict[str, object]) -> str:
    """Where a campaign is that recommends something."""
    with Store.open(guarded.directory) as store:
        asked = spec(*effects, found=ORIGINAL)
        return f"/v1/campaigns/{recommending(store, asked, ORIGINAL, CANDIDATE).id}"


def verifications(guarded: Guarded, campaign: str) -> list[dict[str, Any]]:
    """Those of a campaign, as the service lists them."""
    path, headers = f"{campaign}/verifications", guarded.headers(Scope.READ)
    listed = guarded.client.get(path, headers=headers).json()
    assert isinstance(listed, list)
    return listed


def post(guarded: Guarded, path: str, **more: Any) -> Any:
    return guarded.client.post(path, headers=guarded.headers(Scope.ADMIN), **more)


def newest(guarded: Guarded, campaign: str) -> dict[str, Any]:
    answer = guarded.client.get(f"{campaign}/applications", headers=guarded.headers(Scope.READ))
    found = answer.json()[0]
    assert isinstance(found, dict)
    return found


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.slow
def test_a_plan_is_applied_by_its_identity_and_rolled_back(guarded: Guarded) -> None:
    campaign = stored(guarded)
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
    begun = post(guarded, f"{campaign}/plans/{plan['identity']}/apply")
    assert begun.status_code == 202, begun.text
    wait_for(lambda: newest(guarded, campaign)["state"] not in ("planned", "applying"))
    wait_for(lambda: newest(guarded, campaign)["state"] != "committing")
    applied = newest(guarded, campaign)
    assert (applied["state"], applied["changed_by"]) == ("applied", "for admin, over HTTP")
    again = post(guarded, f"{campaign}/plans", json={})
    assert (again.status_code, again.json()["application"]) == (200, None), again.text
    assert again.json()["before"] == again.json()["after"]
    in_force = "/v1/applications?in_force={}"
    headers = guarded.headers(Scope.READ)
    known = guarded.client.get(in_force.format("true"), headers=headers).json()
    assert [one["id"] for one in known] == [applied["id"]]

    back = post(guarded, f"{campaign}/rollback")
    assert back.status_code == 202, back.text
    wait_for(lambda: newest(guarded, campaign)["state"] == "rolled_back")
    assert newest(guarded, campaign)["changed_by"] == "for admin, over HTTP"
    assert guarded.client.get(in_force.format("true"), headers=headers).json() == []
    assert len(guarded.client.get(in_force.format("false"), headers=headers).json()) == 1
    assert is_problem(post(guarded, f"{campaign}/rollback"), 404)


@pytest.mark.slow
def test_a_stale_plan_is_a_problem_of_its_own(guarded: Guarded) -> None:
    campaign = stored(guarded)
    plan = post(guarded, f"{campaign}/plans", json={}).json()
    fstune(guarded.directory, "apply", campaign.rpartition("/")[2], "--yes", "--step")
    answer = post(guarded, f"{campaign}/plans/{plan['identity']}/apply")
    assert is_problem(answer, 409)
    assert answer.json()["type"] == "urn:fstune:stale-plan"
    assert "make a new plan" in answer.json()["detail"]


@pytest.mark.slow
def test_what_does_not_work_is_told_in_the_application(guarded: Guarded) -> None:
    campaign = stored(guarded, failing("start"))
    plan = post(guarded, f"{campaign}/plans", json={}).json()
    assert post(guarded, f"{campaign}/plans/{plan['identity']}/apply").status_code == 202
    wait_for(lambda: newest(guarded, campaign)["state"] == "failed")
    assert "does not start" in newest(guarded, campaign)["reason"]


@pytest.mark.slow
def test_what_is_applied_is_verified(guarded: Guarded) -> None:
    campaign = stored(guarded, faster(-0.2))
    fstune(guarded.directory, "apply", campaign.rpartition("/")[2], "--yes")
    assert is_problem(post(guarded, f"{campaign}/verifications", json={"blocks": 2}), 422)
    begun = post(guarded, f"{campaign}/verifications", json={"blocks": 4})
    assert begun.status_code == 202, begun.text
    assert begun.json()["state"] == "requested"
    assert begun.json()["text"] == "for admin, over HTTP asked to verify it in 4 blocks"
    twice = post(guarded, f"{campaign}/verifications", json={"blocks": 4})
    assert is_problem(twice, 409)
    assert "is being verified" in twice.json()["detail"]

    def told() -> list[dict[str, Any]]:
        headers = guarded.headers(Scope.READ)
        found = guarded.client.get(begun.headers["location"], headers=headers).json()
        return [one for one in found if one["number"] > begun.json()["number"]]

    wait_for(lambda: bool(told()))
    (done,) = told()
    assert (done["state"], done["outcome"], done["blocks"]) == ("done", "holds", 4), done
    assert done["request"] == begun.json()["number"]
    assert done["upper"] < 1.0
    measured = guarded.client.get(
        f"/v1/campaigns/{done['verification']}", headers=guarded.headers(Scope.READ)
    )
    assert measured.json()["state"] == "finished"


@pytest.mark.slow
def test_a_verification_that_cannot_be_measured_says_why(guarded: Guarded) -> None:
    campaign = stored(guarded, failing("start"))
    asked = post(guarded, f"{campaign}/verifications", json={"blocks": 3}).json()
    path = f"{campaign}/verifications"

    def last() -> dict[str, Any]:
        found = guarded.client.get(path, headers=guarded.headers(Scope.READ)).json()[-1]
        assert isinstance(found, dict)
        return found

    wait_for(lambda: last()["number"] > asked["number"])
    assert (last()["state"], last()["outcome"]) == ("failed", None)
    assert last()["request"] == asked["number"]
    # Whoever waits for the process finds that it has told by itself.
    name = f"verify-{campaign.rpartition('/')[2]}"
    wait_for(lambda: all(thread.name != name for thread in threading.enumerate()))
    known = guarded.client.get(path, headers=guarded.headers(Scope.READ)).json()
    assert [one["state"] for one in known] == ["requested", "failed"]
    assert "does not start" in last()["text"]


@pytest.mark.slow
def test_a_verification_that_does_not_begin_can_be_asked_for_again(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = stored(guarded)
    begun: list[int] = []

    def fail(run: object) -> None:
        begun.append(1)
        raise OSError("no process can be made")

    monkeypatch.setattr(starting, "_start_process", fail)
    for _ in range(2):
        with pytest.raises(OSError, match="no process"):
            post(guarded, f"{campaign}/verifications", json={"blocks": 3})
    assert len(begun) == 2
    known = verifications(guarded, campaign)
    assert [one["state"] for one in known] == ["requested", "failed"] * 2
    assert known[3]["request"] == known[2]["number"]


@pytest.mark.slow
def test_a_verification_that_is_killed_is_told_of(guarded: Guarded) -> None:
    campaign = stored(guarded)
    asked = post(guarded, f"{campaign}/verifications", json={"blocks": 500}).json()

    with Store.open(guarded.directory) as store:
        wait_for(lambda: bool(store.leases()))
        kill_runs(store)
    wait_for(lambda: len(verifications(guarded, campaign)) == 2)
    assert (
        verifications(guarded, campaign)[1]["state"],
        verifications(guarded, campaign)[1]["request"],
    ) == ("failed", asked["number"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("status", "said"),
    [
        (-9, "its process was ended by signal 9"),
        # What the kernel says of a child that somebody else has waited for.
        (0, "its process ended without a word"),
        (6, "its log cannot be read"),
    ],
)
def test_a_verification_that_ends_without_an_outcome_is_told_of(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch, status: int, said: str
) -> None:
    class Ended:
        def wait(self) -> int:
            return status

    campaign = stored(guarded)
    monkeypatch.setattr(starting, "_start_process", lambda run: Ended())
    asked = post(guarded, f"{campaign}/verifications", json={"blocks": 3}).json()

    wait_for(lambda: len(verifications(guarded, campaign)) == 2)
    assert (
        verifications(guarded, campaign)[1]["state"],
        verifications(guarded, campaign)[1]["request"],
    ) == ("failed", asked["number"])
    assert said in verifications(guarded, campaign)[1]["text"]


@pytest.mark.slow
def test_a_service_that_begins_tells_what_was_cut_off(guarded: Guarded) -> None:
    campaign = stored(guarded)
    event = NewEvent(datetime.now(UTC), EventKind.VERIFY_REQUESTED, "somebody asked")
    with Store.open(guarded.directory) as store:
        name = campaign.rpartition("/")[2]
        asked = Verifications(store).ask(name, event)
        with TestClient(create_app(guarded.directory)):
            pass
        failed = Verifications(store).of(name)[-1]
    assert (failed.kind, failed.data) == (EventKind.VERIFY_FAILED, {"request": asked.number})


@pytest.mark.slow
def test_who_may_only_operate_applies_nothing(guarded: Guarded) -> None:
    campaign = stored(guarded)
    headers = guarded.headers(Scope.OPERATE)
    for path in ("plans", f"plans/{'0' * 32}/apply", "rollback", "verifications"):
        refused = guarded.client.post(f"{campaign}/{path}", headers=headers, json={})
        assert is_problem(refused, 403)
    assert is_problem(post(guarded, f"{campaign}/plans/{'0' * 32}/apply"), 404)
