"""Settings are restored on the clients that they were applied on, and on no others."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.recommending import recommending
from tests.unit.apply.conftest import CANDIDATE, ORIGINAL, Desk
from tests.unit.campaign.campaigns import spec
from tuner.applications import Application
from tuner.apply.applying import carry_out, roll_back
from tuner.apply.destination import Destination
from tuner.apply.open_testbed import OpenTestbed
from tuner.apply.pages import application_lines, plan_lines
from tuner.apply.plan import ApplyPlan
from tuner.cli.apply import _in_force_at
from tuner.errors import ConflictError, SpecError, TestbedError
from tuner.hosts.reach import ReachSection
from tuner.model import Campaign, Configuration
from tuner.states import ApplicationState
from tuner.store import NewEvent

STATES = ApplicationState
BEFORE, AFTER = Configuration.of(ORIGINAL), Configuration.of(CANDIDATE)


def client(name: str, **ssh: Any) -> dict[str, Any]:
    reach = {"ssh": {"address": f"{name}.example.org", **ssh}}
    return {"name": name, "reach": reach, "control": {"fuse": {}}}


def write(path: Path, *clients: dict[str, Any]) -> Path:
    """Write a testbed file of one and the same fileserver with these clients."""
    document = {
        "name": path.stem,
        "path": "/afs/bench",
        "server": {
            "reach": {"ssh": {"address": "fs9.example.org"}},
            "address": "192.0.2.9",
            "volumes": ["bench"],
        },
        "clients": list(clients),
    }
    path.write_text(yaml.safe_dump(document))
    return path


def campaign_on(desk: Desk, file: Path) -> Campaign:
    return recommending(desk.store, spec(testbed={"hosts": str(file)}), ORIGINAL, CANDIDATE)


def applied(desk: Desk, campaign: Campaign, destination: Destination) -> Application:
    """Store an application as if it had been carried out."""
    now = datetime.now(UTC)
    event = NewEvent(now, "applied", "a test says so", {})
    application = Application(
        id="a20260301-120000-8wj2",
        campaign=campaign.id,
        state=ApplicationState.PLANNED,
        testbed=destination.name,
        section=destination.document,
        plan="p",
        stepwise=False,
        programs="",
        before=BEFORE,
        after=AFTER,
        planned=now,
        planned_by="alice",
        changed=now,
        changed_by="alice",
        clients=destination.clients,
    )
    desk.actor.applications.add(application, event)
    states = ApplicationState
    for state in (states.APPLYING, states.COMMITTING, states.APPLIED):
        application = desk.actor.applications.move(application.id, state, "", "alice", event)
    return application


def test_a_rollback_on_other_clients_is_refused(desk: Desk, tmp_path: Path) -> None:
    file = write(tmp_path / "one.yaml", client("c2"), client("c1"))
    campaign = campaign_on(desk, file)
    application = applied(desk, campaign, Destination.of(campaign, tmp_path))
    write(file, client("c3"))
    why = (
        r"is for clients c1\.example\.org, c2\.example\.org, but its testbed file now names "
        r"client c3\.example\.org: write the address of each client as it was, since an IP "
        "address and a name are never taken for the same host; or if a client is gone for good, .*"
        r"leave it out with: fstune rollback a20260301-120000-8wj2 --without CLIENT$"
    )
    for use in (roll_back, carry_out):
        with pytest.raises(ConflictError, match=why):
            use(desk.actor, application)
    assert desk.actor.applications.get(application.id).state is ApplicationState.APPLIED


@pytest.mark.parametrize(
    ("left_out", "error", "why"),
    [
        (["c3.example.org"], SpecError, "--without: c3.example.org: a2026.* is for clients c1"),
        (["c1.example.org"], ConflictError, "file of a2026.* still names client c1.example.org: "),
    ],
)
def test_only_a_client_that_the_file_no_longer_names_is_left_out(
    desk: Desk, tmp_path: Path, left_out: list[str], error: type[Exception], why: str
) -> None:
    file = write(tmp_path / "one.yaml", client("c1"), client("c2"))
    campaign = campaign_on(desk, file)
    application = applied(desk, campaign, Destination.of(campaign, tmp_path))
    write(file, client("c1"))
    with pytest.raises(error, match=why):
        roll_back(desk.actor, application, left_out)
    with pytest.raises(SpecError, match=r"c2\.example\.org: a2026.* has no record of its clients"):
        roll_back(desk.actor, replace(application, clients=()), ["c2.example.org"])
    destination = desk.actor.destination(application, ["c2.example.org"])
    assert destination.left_out == ("c2.example.org",)
    write(file, client("c1"), client("c4"))
    with pytest.raises(ConflictError, match=r"now names clients c1.*, c4.*: write"):
        roll_back(desk.actor, application, ["c2.example.org"])


@pytest.mark.slow
def test_a_rollback_without_a_client_that_is_gone_says_so_for_good(
    desk: Desk, clients: list[str]
) -> None:
    campaign = desk.campaign()
    application = desk.apply(campaign)
    clients.remove("c2")
    with pytest.raises(ConflictError, match="--without CLIENT"):
        roll_back(desk.actor, application)
    back = roll_back(desk.actor, application, ["c2"])
    assert (back.state, back.reason) == (STATES.ROLLED_BACK, "client c2 left out, so not restored")
    assert desk.in_force(campaign) == ORIGINAL
    first, *_ = application_lines(desk.actor.applications.all())
    assert first == f"{back.id}  rolled_back: client c2 left out, so not restored"


@pytest.mark.slow
@pytest.mark.parametrize("state", [STATES.APPLYING, STATES.ROLLING_BACK])
def test_what_was_cut_off_is_undone_without_a_client_that_is_gone(
    desk: Desk, clients: list[str], monkeypatch: pytest.MonkeyPatch, state: ApplicationState
) -> None:
    campaign = desk.campaign()
    planned = desk.plan(campaign)

    def die(*_: object) -> None:
        raise TestbedError("it does not answer")

    with monkeypatch.context() as patch:
        if state is STATES.ROLLING_BACK:
            carry_out(desk.actor, planned)
        patch.setattr(OpenTestbed, "restore", die)
        patch.setattr(OpenTestbed, "check_health", die)
        use = roll_back if state is STATES.ROLLING_BACK else carry_out
        with pytest.raises(TestbedError, match="it does not answer"):
            use(desk.actor, desk.actor.applications.get(planned.id))
    cut_off = desk.actor.applications.get(planned.id)
    assert cut_off.state is state
    clients.remove("c2")
    back = roll_back(desk.actor, cut_off, ["c2"])
    assert back.state in (STATES.FAILED, STATES.ROLLED_BACK)
    assert "client c2 left out, so not restored" in back.reason
    assert desk.in_force(campaign) == ORIGINAL


def test_the_same_clients_in_another_order_are_the_same(desk: Desk, tmp_path: Path) -> None:
    file = write(tmp_path / "one.yaml", client("c1"), client("c2"))
    campaign = campaign_on(desk, file)
    application = applied(desk, campaign, Destination.of(campaign, tmp_path))
    write(file, client("c2", user="bench"), client("C1"))
    destination = desk.actor.destination(application)
    assert destination.clients == ("c1.example.org", "c2.example.org")


def test_an_application_of_an_earlier_release_is_restored_by_the_old_rule(
    desk: Desk, tmp_path: Path
) -> None:
    """It has no record of its clients, so the testbed alone counts."""
    file = write(tmp_path / "one.yaml", client("c1"))
    campaign = campaign_on(desk, file)
    application = applied(desk, campaign, Destination.of(campaign, tmp_path))
    write(file, client("c3"))
    old = replace(application, clients=())
    assert desk.actor.destination(old).clients == ("c3.example.org",)


def test_the_same_server_with_other_clients_is_another_testbed(desk: Desk, tmp_path: Path) -> None:
    campaign = campaign_on(desk, write(tmp_path / "one.yaml", client("c1")))
    here = Destination.of(campaign, tmp_path)
    there = Destination.of(campaign, tmp_path, write(tmp_path / "two.yaml", client("c2")))
    assert (here.name, here.other, there.other) == (there.name, False, True)
    application = applied(desk, campaign, here)
    assert _in_force_at(desk.store, campaign, here) == application
    assert _in_force_at(desk.store, campaign, there) is None


def test_plans_for_other_clients_differ() -> None:
    def plan(*clients: str) -> ApplyPlan:
        return ApplyPlan("c", "hall", "h", "p", BEFORE, AFTER, (), (), (), False, clients)

    assert len({plan().identity, plan("c1").identity, plan("c1", "c2").identity}) == 3
    assert "Clients: c1, c2." in list(plan_lines(plan("c1", "c2")))


def test_the_clients_of_an_application_are_listed(desk: Desk, tmp_path: Path) -> None:
    campaign = campaign_on(desk, write(tmp_path / "one.yaml", client("c2"), client("c1")))
    application = applied(desk, campaign, Destination.of(campaign, tmp_path))
    assert "  clients: c1.example.org, c2.example.org" in list(application_lines([application]))


@pytest.mark.parametrize(
    ("reach", "place"),
    [
        ({"local": {}}, "this machine"),
        ({"netns": {"cell": "vm", "node": "client1"}}, "node client1 of cell vm"),
        ({"ssh": {"address": "C1", "user": "bench", "port": 22}}, "c1"),
        ({"ssh": {"address": "127.0.0.1", "port": 2022}}, "127.0.0.1"),
        ({"ssh": {"address": "c1", "jump": {"address": "gate"}}}, "c1"),
        (
            {"ssh": {"address": "c1", "netns": {"cell": "vm", "node": "server"}}},
            "c1 from node server of cell vm",
        ),
    ],
)
def test_a_host_is_told_apart_by_where_it_is(reach: dict[str, Any], place: str) -> None:
    assert ReachSection.model_validate(reach).place == place
