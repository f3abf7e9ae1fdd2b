"""Network limits of hosts: raised, verified, and restored with and without fstune."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import search_spaces
from tests.unit.services.openafs.applications import open_lasting
from tests.unit.services.openafs.network_host import USUAL, NetworkHost, host_in
from tuner.apply.open_testbed import OpenTestbed
from tuner.errors import ConfigurationError, TestbedError
from tuner.hosts.dry import DryConnector
from tuner.hosts.restore_all import restore_all
from tuner.model import Configuration
from tuner.services.lasting import JournalState, LastingPart
from tuner.services.openafs.host_network import HostNetwork, possible
from tuner.services.part import NotInEffect
from tuner.services.target import Target

SPACE = search_spaces.load("host-network")
MIB = 1 << 20
ORIGINAL = (USUAL["rmem_max"], USUAL["wmem_max"])


def part(*hosts: NetworkHost, alike: bool = True) -> HostNetwork:
    return HostNetwork.attach(hosts, hosts[0].directory, SPACE, alike=alike)


def parts(*hosts: NetworkHost) -> HostNetwork:
    """Like ``part``, but with separate directories, as on real hosts."""
    networks = [HostNetwork.attach([host], host.directory, SPACE) for host in hosts]
    facts = {
        name: (min if name == "memory_bytes" else max)(one.facts[name] for one in networks)
        for name in networks[0].facts
    }
    every = [limits for one in networks for limits in one.hosts]
    return HostNetwork(every, SPACE, networks[0].identity, networks[0].initial, facts)


def test_limits_are_set_proven_and_restored(host: NetworkHost) -> None:
    network = part(host)
    assert isinstance(network, LastingPart)
    assert network.initial == {}
    assert network.facts == {
        "net_core_rmem_max": 212992,
        "net_core_wmem_max": 212992,
        "memory_bytes": 16 << 30,
    }
    assert network.apply({}) is None
    assert host.journals() == []
    assert network.apply({"rmem_max": 8 * MIB}) == "set"
    assert host.calls() == [f"sysctl -w net.core.rmem_max={8 * MIB}"]
    assert network.read_back({"rmem_max": 8 * MIB}) == {"rmem_max": 8 * MIB}
    assert host.journals() == ["host_network"]
    assert network.apply({"rmem_max": 8 * MIB}) is None
    # Limits that are not given have their original values.
    assert network.apply({"wmem_max": MIB}) == "set"
    assert host.limits == (ORIGINAL[0], MIB)
    message = network.restore()
    assert message == "network limits of fs9 set again as found: net.core.wmem_max=212992"
    assert (host.limits, host.journals()) == (ORIGINAL, [])
    assert network.restore() == "network limits of fs9 left as found"


def test_limits_that_the_kernel_does_not_take_are_detected(host: NetworkHost) -> None:
    network = part(host)
    host.write("refuses", 1)
    with pytest.raises(
        ConfigurationError, match=r"does not accept net.core.rmem_max = 1048576: .*per"
    ):
        network.apply({"rmem_max": MIB})
    # Some versions of sysctl report success although they failed.
    host.write("refuses", 0)
    network.apply({"rmem_max": MIB})
    with pytest.raises(
        NotInEffect, match=r"^fs9: .*net.core.rmem_max should show 1048576, it shows"
    ):
        network.read_back({"rmem_max": MIB})
    (host.here / "refuses").unlink()
    assert network.apply({"rmem_max": MIB}) == "set"
    assert network.read_back({"rmem_max": MIB}) == {"rmem_max": MIB}


def test_what_is_unset_is_read_back_too(host: NetworkHost) -> None:
    network = part(host)
    network.apply({"rmem_max": MIB})
    host.write("wmem_max", 2 * MIB)
    with pytest.raises(NotInEffect, match=r"net.core.wmem_max should be 212992 as found, it is"):
        network.read_back({"rmem_max": MIB})


@pytest.mark.slow
def test_limits_are_only_ever_raised(tmp_path: Path) -> None:
    low, high = host_in(tmp_path, "c1"), host_in(tmp_path, "fs9", rmem_max=4 * MIB)
    network = parts(low, high)
    assert network.facts["net_core_rmem_max"] == 4 * MIB
    with pytest.raises(
        ConfigurationError, match=r"fs9: net.core.rmem_max = 1048576 is below the 41"
    ):
        network.apply({"rmem_max": MIB})
    assert network.apply({"rmem_max": 8 * MIB}) == "set"
    assert low.limits == high.limits == (8 * MIB, ORIGINAL[1])
    # Each host gets its own original value back.
    assert network.apply({}) == "set"
    assert (low.limits[0], high.limits[0]) == (ORIGINAL[0], 4 * MIB)
    network.apply({"rmem_max": 8 * MIB})
    network.restore()
    assert (low.limits[0], high.limits[0]) == (ORIGINAL[0], 4 * MIB)
    assert low.journals() == high.journals() == []


def test_limits_are_set_on_one_of_several_hosts_with_the_same_kernel(tmp_path: Path) -> None:
    first, second = host_in(tmp_path, "c1", kernel="k"), host_in(tmp_path, "c2", kernel="k")
    network = part(first, second)
    network.apply({"rmem_max": MIB})
    assert (len(first.calls()), second.calls()) == (1, [])


def test_what_somebody_else_changes_is_not_overwritten(host: NetworkHost) -> None:
    network = part(host)
    network.apply({"rmem_max": MIB})
    host.write("rmem_max", 5 * MIB)
    with pytest.raises(
        TestbedError, match=r"somebody else has changed net.core.rmem_max meanwhile"
    ):
        network.apply({"rmem_max": 2 * MIB})
    assert host.limits[0] == 5 * MIB
    network.restore()
    assert host.limits == ORIGINAL


@pytest.mark.slow
def test_a_host_is_restored_without_fstune(host: NetworkHost) -> None:
    part(host).apply({"rmem_max": MIB, "wmem_max": MIB})
    # After an interrupted run, the journal has the original values.
    again = part(host)
    assert again.initial == {}
    assert again.facts["net_core_rmem_max"] == 212992
    assert again.apply({"rmem_max": 2 * MIB}) == "set"
    script = host.here / "restore" / "host_network" / "restore.sh"
    done = host.run(["sh", str(script)])
    assert done.stdout == "set again as found: net.core.rmem_max=212992\n"
    assert host.limits == ORIGINAL
    assert host.run(["sh", str(script)]).stdout == "left as found\n"
    assert restore_all(host, str(host.here)) == ["host_network on fs9 left as found"]
    assert host.journals() == []


@pytest.mark.slow
@pytest.mark.parametrize("status", [0, 1])
def test_a_limit_that_does_not_come_back_keeps_its_journal(host: NetworkHost, status: int) -> None:
    network = part(host)
    network.apply({"rmem_max": MIB})
    host.write("refuses", status)
    with pytest.raises(
        TestbedError, match=r"are not as found: sysctl -w net.core.rmem_max=212992: "
    ):
        network.restore()
    assert host.journals() == ["host_network"]
    (host.here / "refuses").unlink()
    network.restore()
    assert (host.limits, host.journals()) == (ORIGINAL, [])


@pytest.mark.parametrize("name", ["found", "sums"])
def test_a_damaged_journal_does_nothing(host: NetworkHost, name: str) -> None:
    network = part(host)
    network.apply({"rmem_max": MIB})
    (host.here / "restore" / "host_network" / name).write_text("net.core.rmem_max=1\0")
    with pytest.raises(TestbedError, match="is damaged; nothing was done"):
        network.restore()
    assert host.limits[0] == MIB


def test_half_a_script_does_nothing(host: NetworkHost, root: Path) -> None:
    part(host).apply({"rmem_max": MIB})
    text = (root / "tuner/services/openafs/scripts/host-network-restore.sh").read_text()
    half = host.here / "restore" / "host_network" / "half.sh"
    half.write_text(text[: text.index('if [ -n "$failed" ]')])
    environment = {"HERE": str(host.here), "PATH": f"{host.here}/bin:/usr/bin:/bin"}
    done = subprocess.run(
        ["sh", half], env=environment, capture_output=True, timeout=60, check=False
    )
    assert done.returncode != 0
    assert host.limits[0] == MIB


def test_a_rehearsal_lists_what_would_be_set(host: NetworkHost) -> None:
    everything: list[tuple[str, tuple[str, ...]]] = []
    dry = DryConnector(host, everything)
    network = HostNetwork.attach([dry], host.directory, SPACE)
    network.rehearse(network.initial)
    network.restore()
    commands = [command for _, command in everything]
    assert ("sysctl", "-w", "net.core.rmem_max=212992") in commands
    assert ("sh", f"{host.directory}/host_network/restore.sh") in commands
    assert (host.calls(), host.journals()) == ([], [])


def test_a_search_may_set_what_memory_and_campaign_allow() -> None:
    facts = {"net_core_rmem_max": 212992, "net_core_wmem_max": 212992, "memory_bytes": 16 << 30}
    assert possible(SPACE, facts)["net_core_rmem_max"] == 32 * MIB
    assert possible(SPACE, facts | {"memory_bytes": 256 * MIB})["net_core_rmem_max"] == 8 * MIB
    narrowed = SPACE.narrow(ranges={"rmem_max": [262144, 4 * MIB]}, fix={"wmem_max": MIB})
    assert possible(narrowed, facts) == {
        "net_core_rmem_max": 4 * MIB,
        "net_core_wmem_max": MIB,
    }


# Configurations that stay.


def open_testbed(name: str, *hosts: NetworkHost, putting_back: bool = False) -> OpenTestbed:
    return open_lasting(name, Target({"host_network": part(*hosts, alike=not putting_back)}))


def apply(name: str, host: NetworkHost, **values: int) -> Configuration:
    """Bring a configuration into force; returns the previous one."""
    testbed = open_testbed(name, host)
    before = testbed.in_effect()
    after = Configuration.of({f"host_network.{n}": v for n, v in values.items()})
    testbed.change(after, frozenset({"host_network"}))
    assert testbed.stays(before, after)
    testbed.keep(frozenset({"host_network"}))
    return before


@pytest.mark.slow
def test_what_is_applied_stays_and_is_rolled_back(host: NetworkHost) -> None:
    assert not part(host).outlives_restart
    assert "/etc/sysctl.d" in part(host).where_kept
    assert "a fileserver whose buffers depend on them is restarted" in part(host).how_changed
    first = apply("a1", host, rmem_max=8 * MIB)
    assert (host.limits[0], host.journals()) == (8 * MIB, [])
    assert part(host).journals("a1") == {JournalState.KEPT}
    # The configuration in force is reported; unset still stands for the values before it.
    assert part(host).initial == {"rmem_max": 8 * MIB}
    assert part(host).facts["net_core_rmem_max"] == 212992
    second = apply("a2", host, rmem_max=16 * MIB)
    assert second == Configuration.of({"host_network.rmem_max": 8 * MIB})
    testbed = open_testbed("a2", host, putting_back=True)
    assert testbed.restore(second) == ""
    assert host.limits[0] == 8 * MIB
    testbed = open_testbed("a1", host, putting_back=True)
    assert testbed.restore(first) == ""
    assert (host.limits, host.journals()) == (ORIGINAL, [])
    assert part(host).initial == {}


@pytest.mark.slow
def test_a_verification_measures_what_was_there_before(host: NetworkHost) -> None:
    apply("a1", host, rmem_max=8 * MIB)
    network = part(host)
    assert network.apply({}) == "set"
    assert host.limits == ORIGINAL
    assert network.read_back({}) == {}
    network.restore()
    assert host.limits[0] == 8 * MIB


@pytest.mark.slow
def test_hosts_must_agree_on_what_was_applied(tmp_path: Path) -> None:
    """Both hosts use the same directory, so they share the journals of the application."""
    first = host_in(tmp_path, "c1")
    apply("a1", first, rmem_max=8 * MIB)
    second = host_in(tmp_path, "c2")
    with pytest.raises(
        TestbedError, match=r"c2 and c1 have different applied settings \(net.core.rmem_max"
    ):
        part(first, second)
    assert part(first, second, alike=False).initial == {"rmem_max": 8 * MIB}


@pytest.mark.slow
def test_a_host_that_has_the_applied_limit_already_is_rolled_back_with_the_others(
    tmp_path: Path,
) -> None:
    low = host_in(tmp_path, "c1")
    high = host_in(tmp_path, "fs9", rmem_max=8 * MIB, wmem_max=8 * MIB)
    network = parts(low, high)
    assert network.apply({"rmem_max": 8 * MIB, "wmem_max": 8 * MIB}) == "set"
    network.keep("a1")
    assert network.journals("a1") == {JournalState.KEPT}
    network.reopen("a1")
    network.restore()
    assert (low.limits, high.limits) == (ORIGINAL, (8 * MIB, 8 * MIB))
