"""Which testbeds support network limits as a part, and on which of their hosts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import yaml

import search_spaces
from tests.unit.services.openafs.kernel_client import Machine
from tests.unit.services.openafs.network_host import host_in
from tuner.compose import prepare
from tuner.errors import SpecError
from tuner.hosts.connections import Hosts
from tuner.hosts.local import LocalConnector
from tuner.measure.workload import load_workload
from tuner.services.kinds import programs
from tuner.services.openafs import hosts
from tuner.services.openafs.assembly import ClientHost, Layout, assemble, usual_requirements
from tuner.services.openafs.host_network import HostNetwork
from tuner.services.openafs.testbed_file import TestbedFile
from tuner.spec.campaign import CampaignSpec

SPACE = search_spaces.load("host-network")
SHARED = "nodes of a private cell share the kernel of the machine that they are on"
NODE = {"netns": {"cell": "default", "node": "client1"}}
OTHER_NODE = {"netns": {"cell": "default", "node": "client2"}}
SSH = {"ssh": {"address": "c1.example.org"}}
FILE = Path(__file__).parents[3] / "data" / "testbeds" / "everything.yaml"


def document(server: object, *clients: object) -> dict[str, Any]:
    control: dict[str, object] = {"fuse": {}}
    return {
        "name": "x",
        "path": "/afs/.:mount/example.org:bench",
        "server": {"reach": server, "address": "10.77.0.1", "volumes": ["bench"]},
        "clients": [
            {"name": f"c{number}", "reach": reach, "control": control}
            for number, reach in enumerate(clients)
        ],
    }


def problem(testbed: dict[str, object], directory: Path, space: str = "host-network") -> str:
    spaces = {"cache_manager": "openafs-cache-manager-fuse-1.8", "host_network": space}
    campaign = {"name": "x", "testbed": testbed, "spaces": spaces, "workload": "mixed-use"}
    try:
        prepare(CampaignSpec.model_validate(campaign), directory)
    except SpecError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("reaches", "taken"),
    [
        ((NODE, OTHER_NODE), False),
        ((NODE, SSH), True),
        ((SSH, NODE), True),
        ((NODE, {"local": {}}), True),
        # A guest has its own kernel, even if it is reached through a node.
        ((NODE, {"ssh": {"address": "10.77.0.9", **NODE}}), True),
    ],
)
def test_a_testbed_needs_a_host_with_a_kernel_of_its_own(
    reaches: tuple[object, ...], taken: bool, tmp_path: Path
) -> None:
    file = tmp_path / "testbed.yaml"
    file.write_text(yaml.safe_dump(document(*reaches)))
    message = problem({"hosts": str(file)}, tmp_path)
    assert (message == "") == taken
    assert taken or message.startswith(f"spaces.host_network: {SHARED}")


def test_a_private_cell_is_refused(tmp_path: Path) -> None:
    message = problem({"cell": {}}, tmp_path)
    assert message.startswith(
        f"spaces.host_network: {SHARED}, and its network limits cannot be set"
    )


def test_a_space_of_other_settings_is_refused(tmp_path: Path, root: Path) -> None:
    text = (root / "search_spaces" / "host-network.yaml").read_text()
    space = tmp_path / "mine.yaml"
    space.write_text(text.replace("net.core.wmem_max", "net.core.somaxconn"))
    (tmp_path / "testbed.yaml").write_text(yaml.safe_dump(document(NODE, SSH)))
    message = problem({"hosts": str(tmp_path / "testbed.yaml")}, tmp_path, str(space))
    assert "sets more than net.core.rmem_max and net.core.wmem_max" in message


def test_only_hosts_with_a_kernel_of_their_own_are_set() -> None:
    file = TestbedFile.model_validate(document(NODE, SSH, OTHER_NODE, {"local": {}}))
    every: list[Any] = ["server", "c0", "c1", "c2"]
    kernels: list[Any] = [*hosts._kernels(file, every)]
    assert kernels == ["c0", "c2"]


@pytest.mark.slow
def test_limits_come_before_the_server_that_asks_for_buffers(
    machine: Machine, tmp_path: Path
) -> None:
    """And, like all tuned settings, they no longer count as part of the state of the hosts."""
    server = host_in(tmp_path, "fs9")
    server.set_up_server()
    layout = Layout(str(machine.here), "/afs/bench", server.place, "kept")
    client = ClientHost(LocalConnector(), machine.place())
    work = load_workload("mixed-use")
    plain = usual_requirements("afsd")
    alone = assemble(server, [client], layout, plain, work)
    assert not alone.target.follows
    both = replace(plain, host_network=SPACE)
    bench = assemble(server, [client], layout, both, work, kernels=[server])
    assert list(bench.target.parts)[:2] == ["host_network", "fileserver"]
    assert bench.target.follows == {"fileserver": "host_network"}
    all_names = {name for state in alone.hosts for name, _ in state.items}
    remaining = {name for state in bench.hosts for name, _ in state.items}
    assert all_names - remaining == {"net.core.rmem_max", "net.core.wmem_max"}


@pytest.mark.slow
def test_a_rehearsal_lists_them_when_a_campaign_asks_for_them(machine: Machine) -> None:
    content = yaml.safe_load(FILE.read_text())
    place = machine.place()
    unit = {"file": place.file, "mount": place.mount, "cache": place.cache}
    content["clients"] = [{"name": "c1", "reach": {"local": {}}, "control": {"systemd": unit}}]
    content["server"]["reach"] = NODE
    content["restore"]["directory"] = str(machine.here)
    file = TestbedFile.model_validate(content)
    local = LocalConnector()
    there = cast(Hosts, SimpleNamespace(all=(local, local)))
    work = load_workload("mixed-use")
    work = replace(work, spec=replace(work.spec, stages=()))
    usual = replace(usual_requirements("afsd"), fileserver=None)

    def listed(requirements: Any) -> list[tuple[str, ...]]:
        rehearsal = hosts.rehearse(file, there, requirements, work, ())
        return [command for _, command in rehearsal.commands if command[0] == "sysctl"]

    assert listed(usual) == []
    commands = listed(replace(usual, host_network=SPACE))
    assert [command[2].partition("=")[0] for command in commands] == [
        "net.core.rmem_max",
        "net.core.wmem_max",
    ]


def test_an_administrator_is_told_where_limits_are_kept() -> None:
    assert programs()[SPACE.program].where.startswith("/etc/sysctl.d/")
    assert "sysctl --system" in programs()[SPACE.program].then
    assert HostNetwork((), SPACE, "", {}, {}).where_kept.endswith("on every host")
