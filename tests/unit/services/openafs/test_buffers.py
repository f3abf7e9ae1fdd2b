"""A fileserver on a host with tuned network limits: the limits at its start clamp its buffers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import search_spaces
from tests.unit.services.openafs.applications import open_lasting
from tests.unit.services.openafs.network_host import NetworkHost, host_in
from tuner.hosts.connector import Connector
from tuner.hosts.restore_all import restore_all
from tuner.model import Configuration
from tuner.services.openafs.fileserver import Fileserver
from tuner.services.openafs.host_network import HostNetwork, bound
from tuner.services.target import Target

LIMITS = search_spaces.load("host-network")
SERVER = search_spaces.load("openafs-fileserver-1.8")
USUAL, MIB = 212992, 1 << 20
RMEM, UDP = "host_network.rmem_max", "fileserver.udp_buffer"


def target_on(host: NetworkHost, *tuned: Connector) -> Target:
    """A target with both parts. ``tuned``: the hosts with tuned limits; by default the server's."""
    network = HostNetwork.attach(tuned or [host], host.directory, LIMITS)
    server = Fileserver.attach(host, host.place, SERVER)
    follows = {"fileserver": "host_network"} if bound(server, network) else {}
    return Target({"host_network": network, "fileserver": server}, follows=follows)


def apply(target: Target, **values: int) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Apply a configuration; returns the values in effect, and the actions."""
    settings = {name.replace("__", "."): value for name, value in values.items()}
    done = target.apply(Configuration.of(settings), lambda what: None)
    return done.effective.as_dict(), done.actions


def restore(target: Target) -> list[str]:
    return target.restore(lambda what: None)


@pytest.mark.slow
def test_a_larger_buffer_is_possible_and_in_effect(host: NetworkHost) -> None:
    host.set_up_server()
    target = target_on(host)
    assert target.parts["fileserver"].facts["net_core_rmem_max"] == 32 * MIB
    assert target.parts["fileserver"].facts["memory_bytes"] == 16 << 30
    # A value that is clamped by an original limit is reported as clamped.
    effective, actions = apply(target, fileserver__udp_buffer=8 * MIB)
    assert effective == {UDP: USUAL}
    assert actions == ("fileserver restart",)
    effective, actions = apply(
        target, host_network__rmem_max=8 * MIB, fileserver__udp_buffer=8 * MIB
    )
    assert effective == {RMEM: 8 * MIB, UDP: 8 * MIB}
    # The command line is unchanged, but not the buffer.
    assert actions == ("host_network set", "fileserver restart")
    assert host.number("buffer") == 8 * MIB
    again = apply(target, host_network__rmem_max=8 * MIB, fileserver__udp_buffer=8 * MIB)
    assert again == (effective, ())


@pytest.mark.slow
def test_limits_that_clamp_nothing_restart_nothing(host: NetworkHost) -> None:
    host.set_up_server()
    target = target_on(host)
    assert apply(target, host_network__rmem_max=8 * MIB)[1] == ("host_network set",)
    values = {"fileserver__udp_buffer": 131072, "host_network__rmem_max": 8 * MIB}
    assert apply(target, **values)[1] == ("fileserver restart",)
    values |= {"host_network__wmem_max": MIB}
    assert apply(target, **values)[1] == ("host_network set",)
    # The requested size also applies to the send buffer.
    values["fileserver__udp_buffer"] = 4 * MIB
    apply(target, **values)
    values["host_network__wmem_max"] = 2 * MIB
    assert apply(target, **values)[1] == ("host_network set", "fileserver restart")


@pytest.mark.slow
def test_limits_of_other_hosts_do_not_affect_the_server(host: NetworkHost, tmp_path: Path) -> None:
    host.set_up_server()
    target = target_on(host, host_in(tmp_path, "c1"))
    assert not target.follows
    assert target.parts["fileserver"].facts["net_core_rmem_max"] == USUAL
    values = {"fileserver__udp_buffer": MIB, "host_network__rmem_max": 8 * MIB}
    assert apply(target, **values)[0] == {UDP: USUAL, RMEM: 8 * MIB}
    # The same kernel under another name.
    target = target_on(host, host_in(tmp_path, "here", kernel="fs9"))
    assert target.follows == {"fileserver": "host_network"}


@pytest.mark.slow
@pytest.mark.parametrize("options", ["", "-udpsize 4194304", "-p 20"])
@pytest.mark.parametrize("by", ["fstune", "itself", "a part at a time"])
def test_the_server_gets_back_exactly_what_it_had(host: NetworkHost, options: str, by: str) -> None:
    """Even if its options never change, its buffer does."""
    host.set_up_server(options)
    commands, buffer = (host.here / "commands").read_text(), host.number("buffer")
    target = target_on(host)
    values = {"host_network__rmem_max": 8 * MIB}
    if not options:
        values["fileserver__udp_buffer"] = 8 * MIB
    assert "-p" in options or apply(target, **values)[1] == (
        "host_network set",
        "fileserver restart",
    )
    if by == "fstune":
        restore(target)
    elif by == "itself":
        restore_all(host, str(host.here))
    else:
        for name in ("fileserver", "host_network"):
            script = host.here / "restore" / name / "restore.sh"
            assert not script.exists() or host.run(["sh", str(script)]).status == 0
    assert host.limits == (USUAL, USUAL)
    assert (host.here / "commands").read_text() == commands
    assert host.number("buffer") == buffer
    assert by == "a part at a time" or host.journals() == []


@pytest.mark.slow
def test_a_server_whose_buffer_is_as_found_is_left_alone(host: NetworkHost) -> None:
    host.set_up_server("-udpsize 4194304")
    target = target_on(host)
    apply(target, fileserver__udp_buffer=4 * MIB, host_network__rmem_max=8 * MIB)
    apply(target, fileserver__udp_buffer=4 * MIB)
    host.calls()
    assert restore(target)[1].startswith("fileserver on fs9 left as found")
    assert host.calls() == []


@pytest.mark.slow
def test_the_server_is_restored_although_limits_cannot_be(host: NetworkHost) -> None:
    host.set_up_server()
    apply(target_on(host), fileserver__udp_buffer=8 * MIB, host_network__rmem_max=8 * MIB)
    host.write("refuses", 1)
    script = host.here / "restore" / "fileserver" / "restore.sh"
    output = host.run(["sh", str(script)]).stdout
    assert output.startswith(
        "restarted as found; network limits: the network limits are not as found"
    )
    assert "-udpsize" not in (host.here / "commands").read_text()


# Configurations that stay.


@pytest.mark.slow
def test_lasting_limits_restart_the_server_when_applied_and_rolled_back(host: NetworkHost) -> None:
    """Only the limits change, but the server with clamped buffers must be restarted."""
    host.set_up_server("-udpsize 4194304")
    testbed = open_lasting("a1", target_on(host))
    before = testbed.in_effect()
    assert before == Configuration.of({UDP: 4 * MIB})
    after = Configuration.of({UDP: 4 * MIB, RMEM: 8 * MIB})
    testbed.change(after, frozenset({"host_network"}))
    testbed.keep(frozenset({"host_network"}))
    assert (host.number("buffer"), host.journals()) == (4 * MIB, [])
    again = open_lasting("a1", target_on(host))
    assert again.in_effect() == after
    assert again.restore(before) == ""
    assert (host.number("buffer"), host.limits[0], host.journals()) == (USUAL, USUAL, [])
    assert (
        (host.here / "commands").read_text().startswith("/usr/lib/openafs/dafileserver -udpsize 4")
    )
