"""Runtime settings of clients: set again after each start, verified and restored.

Like a real client, the stand-in has connections that keep the encryption they were created with.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

import search_spaces
from tests.unit.services.openafs.kernel_client import SERVER, Machine
from tuner.errors import ConfigurationError, SpecError, TestbedError
from tuner.hosts.local import LocalConnector
from tuner.hosts.restore_all import restore_all
from tuner.model import Value
from tuner.services.openafs import parse
from tuner.services.openafs.client_runtime import ClientRuntime
from tuner.services.openafs.kernel_client import KernelClient
from tuner.services.openafs.kind import _check_programs
from tuner.services.openafs.live import LiveSettings
from tuner.services.part import NotInEffect

SPACE = search_spaces.load("openafs-client-runtime")


def runtime(machine: Machine, *, token: bool = True) -> tuple[ClientRuntime, KernelClient]:
    """The part and its client, both attached to the machine."""
    client = machine.client(token=token)
    place = (client.place.directory, SERVER, "/afs/bench")
    client.live = LiveSettings.attach(client.host, SPACE, client.tokens, place)
    return ClientRuntime.attach([client.live], SPACE), client


def commands(machine: Machine) -> list[str]:
    """Commands that set something or obtained a token since the last call."""
    path = machine.here / "calls"
    words = ("setcrypt", "storebehind", "precache", "bypassthreshold", "aklog")
    calls = [call for call in machine.calls() if call.split()[0] in words]
    path.write_text("")
    return calls


@pytest.mark.slow
def test_encryption_is_what_connections_have(machine: Machine) -> None:
    """Setting it has no effect on existing connections: they are recreated and read back."""
    part, client = runtime(machine)
    assert part.initial == {"crypt": "on"}
    client.start([])
    assert part.apply({"crypt": "on"}) is None
    assert part.read_back({"crypt": "on"}) == {"crypt": "on"}
    assert machine.text("connection") == "crypt"
    commands(machine)
    assert part.apply({"crypt": "off"}) == "set"
    assert commands(machine) == ["setcrypt off", "aklog -force -k EXAMPLE.ORG"]
    assert part.read_back({"crypt": "off"}) == {"crypt": "off"}
    assert machine.text("connection") == "clear"
    assert part.apply({"crypt": "off"}) is None


@pytest.mark.slow
def test_a_connection_that_kept_its_encryption_is_detected(machine: Machine) -> None:
    part, client = runtime(machine)
    client.start([])
    part.apply({"crypt": "off"})
    (machine.here / "connection").write_text("crypt")
    (machine.here / "serial").write_text("9")
    with pytest.raises(NotInEffect, match=r"fs.crypt should show off, it shows on"):
        part.read_back({"crypt": "off"})
    machine.set("silent")
    with pytest.raises(NotInEffect, match="no connection with a token"):
        part.read_back({"crypt": "off"})


@pytest.mark.slow
def test_all_settings_are_set_again_after_a_start_before_the_first_connection(
    machine: Machine,
) -> None:
    """A restart resets encryption and loses the rest, and making caches cold needs restarts."""
    part, client = runtime(machine)
    client.start([])
    values: dict[str, Value] = {"crypt": "off", "store_behind": 512}
    part.apply(values)
    commands(machine)
    client.start([])
    assert commands(machine) == [
        "setcrypt off",
        "storebehind -allfiles 512",
        "aklog -force -k EXAMPLE.ORG",
    ]
    assert part.apply(values) is None
    assert part.read_back(values) == values
    # Settings that are not given are as after a start.
    part.apply({"crypt": "on"})
    assert commands(machine) == [
        "storebehind -allfiles 0",
        "setcrypt on",
        "aklog -force -k EXAMPLE.ORG",
    ]


@pytest.mark.slow
def test_original_settings_are_restored_without_fstune(machine: Machine) -> None:
    (machine.here / "storebehind").write_text("64")
    part, client = runtime(machine)
    assert part.initial == {"crypt": "on", "store_behind": 64}
    client.start([])
    assert machine.text("storebehind") == "64"
    part.apply({"crypt": "off", "precache": 128, "bypass_threshold": 65536})
    assert (machine.text("storebehind"), machine.text("precache")) == ("0", "128")
    for name in ("cache_manager", "token"):
        script = machine.here / "restore" / name / "restore.sh"
        subprocess.run(["sh", script], check=True, capture_output=True)
    script = machine.here / "restore" / "client_runtime" / "restore.sh"
    output = subprocess.run(["sh", script], check=True, capture_output=True, text=True).stdout
    assert output == (
        "set again as found: setcrypt on storebehind 64 precache 0 bypassthreshold -1\n"
    )
    assert machine.text("crypt").startswith("crypt")
    assert (machine.text("storebehind"), machine.text("precache")) == ("64", "0")
    assert machine.text("bypassthreshold") == "-1"
    part, client = runtime(machine)
    client.restore()
    assert "set again as found" in part.restore()
    assert not (machine.here / "restore" / "client_runtime").exists()


@pytest.mark.slow
def test_nothing_is_set_before_the_client_is_started_as_found(machine: Machine) -> None:
    """While files are in use it cannot be started, and settings would be lost by a later start."""
    (machine.here / "storebehind").write_text("64")
    part, client = runtime(machine)
    client.start([])
    part.apply({"crypt": "off"})
    machine.set("busy")
    with pytest.raises(TestbedError, match="the client must be started as found first"):
        restore_all(LocalConnector(), str(machine.here))
    with pytest.raises(TestbedError, match="the client must be started as found first"):
        part.restore()
    assert machine.journals() == ["cache_manager", "client_runtime"]
    (machine.here / "busy").unlink()
    restore_all(LocalConnector(), str(machine.here))
    assert machine.journals() == []
    assert machine.text("storebehind") == "64"


@pytest.mark.slow
def test_a_journal_of_a_run_that_was_cut_off_says_what_was_found(machine: Machine) -> None:
    part, client = runtime(machine)
    client.start([])
    part.apply({"crypt": "off", "store_behind": 512})
    again, client = runtime(machine)
    assert again.initial == {"crypt": "on"}
    client.restore()
    again.restore()
    assert machine.text("crypt").startswith("crypt")
    assert machine.text("storebehind") == "0"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["crypt", "found", "store_behind", "sums"])
def test_a_damaged_journal_does_nothing(machine: Machine, name: str) -> None:
    part, client = runtime(machine)
    client.start([])
    part.apply({"crypt": "off"})
    (machine.here / "restore" / "client_runtime" / name).write_text("")
    with pytest.raises(TestbedError, match="is damaged; nothing was done"):
        part.restore()
    assert machine.text("crypt") == "clear"


@pytest.mark.slow
def test_without_a_token_encryption_cannot_be_changed(machine: Machine) -> None:
    part, client = runtime(machine, token=False)
    assert part.initial == {}
    client.start([])
    assert part.apply({}) is None
    assert part.apply({"store_behind": 64}) == "set"
    assert part.read_back({"store_behind": 64}) == {"store_behind": 64}
    with pytest.raises(ConfigurationError, match=r"nothing is encrypted: for client_runtime.crypt"):
        part.apply({"crypt": "off"})
    assert machine.text("crypt").startswith("crypt")


@pytest.mark.slow
def test_what_the_client_does_not_take_is_the_configuration_s_fault(machine: Machine) -> None:
    part, client = runtime(machine)
    client.start([])
    (machine.here / "mounted").unlink()
    with pytest.raises(ConfigurationError, match="does not take fs storebehind -allfiles 64"):
        part.apply({"crypt": "on", "store_behind": 64})
    with pytest.raises(ConfigurationError, match="the client is gone"):
        part.read_back({"crypt": "on"})
    machine.set("mounted")
    part.apply({"crypt": "on"})  # sets everything again, whatever is in effect
    assert machine.text("storebehind") == "0"
    with pytest.raises(ConfigurationError, match=r"cache_manager.blocks sets the same"):
        part.apply({"cache_size": 100000})


def test_clients_must_be_alike(machine: Machine) -> None:
    _, first = runtime(machine)
    _, second = runtime(machine)
    assert first.live is not None
    assert second.live is not None
    second.live.initial["store_behind"] = 64
    with pytest.raises(TestbedError, match="run with different settings"):
        ClientRuntime.attach([first.live, second.live], SPACE)
    assert ClientRuntime.attach([first.live, second.live], SPACE, alike=False).initial == {
        "crypt": "on"
    }


@pytest.mark.parametrize(
    ("changes", "client", "tokens", "why"),
    [
        ({}, "afsd.fuse", False, "afsd.fuse takes no fs commands"),
        ({"also": ["cache_size"]}, "afsd", True, "tune that one"),
        ({"allow_risk": ["security"]}, "afsd", False, "without a token nothing is encrypted"),
    ],
)
def test_a_testbed_that_cannot_do_it_refuses(
    changes: dict[str, Any], client: str, tokens: bool, why: str
) -> None:
    space = SPACE.narrow(**changes)
    with pytest.raises(SpecError, match=why):
        _check_programs({"client_runtime": space}, client, tokens=tokens)
    _check_programs({"client_runtime": SPACE}, "afsd")


def test_connections_are_read_from_rxdebug(root: Path) -> None:
    recorded = root / "tests/data/openafs"
    text = (
        "Trying 127.0.0.1 (port 7001):\nShowing only client connections\n"
        "Connection from host 10.77.0.1, port 7000, Cuid b0c2ea1e/f9d6bde4, error -3\n"
        "  serial 2,  natMTU 1444, flags pktCksum, security index 2, client conn\n"
        "  rxkad: level crypt, flags pktCheckSum\n"
        "    call 0: # 2, state not initialized\n"
        "Connection from host 10.77.0.1, port 7003, Cuid b0c2ea1e/f9d6bde8\n"
        "  serial 7,  natMTU 1444, security index 0, client conn\nDone.\n"
    )
    assert parse.client_connections(text) == (
        parse.Connection("10.77.0.1", 7000, "Cuid b0c2ea1e/f9d6bde4", 2, "crypt"),
        parse.Connection("10.77.0.1", 7003, "Cuid b0c2ea1e/f9d6bde8", 7, ""),
    )
    with pytest.raises(ValueError, match="no list of client connections"):
        parse.client_connections((recorded / "rxdebug-server-connections.txt").read_text())


def test_encryption_is_searched_only_when_the_campaign_says_so() -> None:
    assert {one.name for one in SPACE.searched} == {"precache"}
    allowed = SPACE.narrow(allow_risk=["security"])
    assert {one.name for one in allowed.searched} == {"precache", "crypt"}
