"""A configuration is applied, verified and rolled back on a private cell that stays up.

All of it is done by the command line.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from deploy.cell import Cell
from tests.acceptance.conftest import Place, placed
from tests.acceptance.processes import command_line, runs_with
from tests.recommending import recommending
from tests.waiting import wait_for
from tuner.applications import Application
from tuner.model import Value
from tuner.services.openafs.cell import INITIAL_SETTINGS
from tuner.spec.campaign import read_spec
from tuner.states import ApplicationState
from tuner.store import Store
from tuner.store.applications import Applications

pytestmark = [pytest.mark.cell, pytest.mark.slow, pytest.mark.timeout(400)]

INITIAL: dict[str, Value] = dict(INITIAL_SETTINGS)
RECOMMENDED: dict[str, Value] = INITIAL | {"fileserver.threads": 20, "cache_manager.daemons": 5}


@dataclass
class StandingCell:
    """A cell that stays up, and the original command lines of its programs by node."""

    place: Place
    cell: Cell
    original: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def programs(self) -> dict[str, tuple[str, ...]]:
        client = self.cell.clients[0]
        return {
            "server": command_line(self.cell.server, "dafileserver"),
            "client1": command_line(client, "afsd.fuse"),
        }

    def recommended(self, configuration: dict[str, Value]) -> str:
        with Store.open(self.place.state) as store:
            spec = read_spec(self.place.campaign_file)
            return recommending(store, spec, INITIAL, configuration).id

    def newest(self) -> Application:
        with Store.open(self.place.state) as store:
            return Applications(store).all()[0]

    def journals(self) -> list[str]:
        """Return the open journals on the nodes."""
        nodes = (self.cell.server, *self.cell.clients)
        listed = (node.run(["ls", "-A", "/fstune/restore"]).stdout.decode() for node in nodes)
        entries = [name for names in listed for name in names.split()]
        return [name for name in entries if name in ("fileserver", "cache_manager")]


@pytest.fixture(scope="module")
def standing(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandingCell]:
    with placed(root, tmp_path_factory.mktemp("kept"), "k", []) as place:
        standing = StandingCell(place, place.bring_up())
        standing.original.update(standing.programs())
        yield standing


def test_a_configuration_is_applied_verified_and_rolled_back(standing: StandingCell) -> None:
    campaign = standing.recommended(RECOMMENDED)
    applied = standing.place.fstune("apply", campaign, "--yes", "--step")
    assert applied.returncode == 0, applied.stdout + applied.stderr
    assert "+ fileserver.threads: not set -> 20" in applied.stdout
    assert "bosserver keeps them in BosConfig of server" in applied.stdout
    assert "Lost when the host is rebooted: no file keeps them" in applied.stdout
    assert "step 2 of 2: cache_manager.daemons" in applied.stderr
    new = standing.programs()
    assert new["server"] == (*standing.original["server"], "-p", "20")
    assert set(new["client1"]) - set(standing.original["client1"]) == {"-daemons", "5"}
    # It also survives a restart of the server.
    config = standing.cell.server.check(["cat", "/etc/openafs/BosConfig"])
    assert " ".join(new["server"]) in config
    assert standing.journals() == []
    assert standing.newest().state is ApplicationState.APPLIED

    verified = standing.place.fstune("verify", "last", "--blocks", "3")
    assert verified.returncode in (0, 3), verified.stdout + verified.stderr
    assert "95% interval" in verified.stdout
    assert "in 3 fresh blocks" in verified.stdout
    assert "neither" not in verified.stdout + verified.stderr
    assert standing.programs() == new

    path = "/etc/openafs/BosConfig"
    standing.cell.server.check(["sed", "-i", "s/dafileserver/& -L/", path])
    refused = standing.place.fstune("rollback", campaign, "--yes")
    assert refused.returncode == 4, refused.stdout + refused.stderr
    assert f"server: {path} (dafs) is not what bosserver runs" in " ".join(refused.stderr.split())
    assert standing.programs() == new
    standing.cell.server.check(["sed", "-i", "s/dafileserver -L/dafileserver/", path])

    back = standing.place.fstune("rollback", campaign, "--yes")
    assert back.returncode == 0, back.stdout + back.stderr
    assert standing.programs() == standing.original
    application = standing.newest()
    assert application.state is ApplicationState.ROLLED_BACK
    assert application.before.as_dict() == INITIAL
    assert application.changed_by == "root"
    assert standing.journals() == []


def test_a_rollback_without_its_record_claims_nothing(standing: StandingCell) -> None:
    campaign = standing.recommended(INITIAL | {"fileserver.threads": 20})
    assert standing.place.fstune("apply", campaign, "--yes").returncode == 0
    new = standing.programs()
    server, directory = standing.cell.server, "/fstune/applied"
    server.check(["mv", directory, f"{directory}.away"])
    refused = standing.place.fstune("rollback", campaign, "--yes")
    assert refused.returncode == 6, refused.stdout + refused.stderr
    assert "fileserver.threads is 20, and was 9" in " ".join(refused.stderr.split())
    assert standing.programs() == new != standing.original
    assert standing.newest().state is ApplicationState.APPLIED
    server.check(["mv", f"{directory}.away", directory])
    back = standing.place.fstune("rollback", campaign, "--yes")
    assert back.returncode == 0, back.stdout + back.stderr
    assert standing.programs() == standing.original


def test_a_cell_whose_controller_is_killed_restores_itself(standing: StandingCell) -> None:
    campaign = standing.recommended(RECOMMENDED)
    process = standing.place.start("apply", campaign, "--yes")
    try:
        wait_for(lambda: runs_with(standing.cell.clients[0], "afsd.fuse", "-daemons"), "the change")
    finally:
        process.kill()
        process.communicate()
    assert standing.newest().state is ApplicationState.APPLYING
    for node in (standing.cell.server, *standing.cell.clients):
        past = 'echo -100000 > "$1.new" && mv "$1.new" "$1"'
        node.check(["sh", "-c", past, "sh", "/fstune/lease/heartbeat"])
    wait_for(
        lambda: standing.programs() == standing.original and not standing.journals(),
        "the cell itself",
        0.2,
    )
    settled = standing.place.fstune("rollback", "last", "--yes")
    assert settled.returncode == 0, settled.stdout + settled.stderr
    application = standing.newest()
    assert (application.state, application.reason) == (
        ApplicationState.FAILED,
        "it was interrupted",
    )
    assert standing.programs() == standing.original


def test_a_cell_that_is_not_up_is_refused(standing: StandingCell, tmp_path: Path) -> None:
    document = read_spec(standing.place.campaign_file).model_dump(mode="json", exclude_none=True)
    document["testbed"] = {"cell": {"name": "nowhere"}}
    with Store.open(standing.place.state) as store:
        spec = type(read_spec(standing.place.campaign_file)).model_validate(document)
        campaign = recommending(store, spec, INITIAL, RECOMMENDED).id
    refused = standing.place.fstune("apply", campaign, "--yes")
    assert refused.returncode == 4
    assert "fstune cell up --name nowhere" in refused.stderr
