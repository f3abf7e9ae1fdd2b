"""Settings are put back on the clients that they were applied on, and on no others."""

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
from tuner.apply.pages import application_lines, plan_lines
from tuner.apply.plan import ApplyPlan
from tuner.apply.testbed import Destination
from tuner.cli.apply import _in_force_at
from tuner.errors import ConflictError
from tuner.hosts.reach import ReachSection
from tuner.model import Campaign, Configuration
from tuner.states import ApplicationState
from tuner.store import NewEvent

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
        "address and a name are never taken for the same host"
    )
    for use in (roll_back, carry_out):
        with pytest.raises(ConflictError, match=why):
            use(desk.actor, application)
    assert desk.actor.applications.get(application.id).state is ApplicationState.APPLIED


def test_the_same_clients_in_another_order_are_the_same(desk: Desk, tmp_path: Path) -> None:
    file = write(tmp_path / "one.yaml", client("c1"), client("c2"))
    campaign = campaign_on(desk, file)
    application = applied(desk, campaign, Destination.of(campaign, tmp_path))
    write(file, client("c2", user="bench"), client("C1"))
    destination = desk.actor.destination(application)
    assert destination.clients == ("c1.example.org", "c2.example.org")


def test_an_application_of_an_earlier_release_is_put_back_by_the_old_rule(
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
