"""Testbed files: valid content, and a clear one-line message for every mistake."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tuner.errors import SpecError
from tuner.hosts.connections import ssh_host
from tuner.services.openafs.hosts import client_place
from tuner.services.openafs.kernel_client import KernelPlace
from tuner.services.openafs.testbed_file import TestbedFile, read_testbed
from tuner.services.openafs.tokens import TokenPlace

DATA = Path(__file__).parents[3] / "data" / "testbeds"

#: Invalid values for any name, address or path in a testbed file.
HOSTILE = (
    "",
    " ",
    "-oProxyCommand=touch /tmp/x",
    "--help",
    "a b",
    "a;reboot",
    "a\nb",
    "$(reboot)",
    "`reboot`",
    "a'b",
    'a"b',
    "a|b",
    "a&b",
    "a>b",
    "a\0b",
    "../x",
    "ä",
    "x" * 300,
)
PLACES = (
    ("path",),
    ("server", "name"),
    ("server", "address"),
    ("server", "instance"),
    ("server", "log"),
    ("server", "volumes", 0),
    ("server", "other_volumes", 0),
    ("server", "reach", "ssh", "address"),
    ("server", "reach", "ssh", "user"),
    ("server", "reach", "ssh", "jump", "address"),
    ("server", "reach", "ssh", "jump", "user"),
    ("clients", 0, "name"),
    ("clients", 0, "control", "fuse", "mount"),
    ("clients", 0, "control", "fuse", "cache"),
    ("clients", 1, "reach", "netns", "cell"),
    ("clients", 1, "reach", "netns", "node"),
    ("other_clients", 0),
    ("restore", "directory"),
)


def document() -> Any:
    return yaml.safe_load((DATA / "everything.yaml").read_text())


def read(tmp_path: Path, content: object) -> TestbedFile:
    path = tmp_path / "testbed.yaml"
    path.write_text(yaml.safe_dump(content))
    return read_testbed(path)


def test_every_word_is_understood() -> None:
    file = read_testbed(DATA / "everything.yaml")
    assert file.restore.after == 1800.0
    assert file.hours is not None
    assert file.hours.start.hour == 20
    ssh = file.server.reach.ssh
    assert ssh is not None
    host = ssh_host(ssh, DATA)
    assert (host.address, host.user, host.port, host.sudo) == (
        "fs9.example.org",
        "tuner",
        2222,
        True,
    )
    assert host.key_file == DATA / "keys" / "tuner"
    assert host.jump is not None
    assert host.jump.key_file == DATA / "keys" / "hop"


def test_root_needs_no_sudo_and_others_do() -> None:
    for user, sudo in (("root", False), ("tuner", True)):
        content = document()
        content["server"]["reach"]["ssh"] = {"address": "fs9", "user": user}
        ssh = TestbedFile.model_validate(content).server.reach.ssh
        assert ssh is not None
        assert ssh.by_sudo is sudo


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES, ids=lambda place: ".".join(map(str, place)))
def test_values_that_could_be_more_than_data_are_refused(
    tmp_path: Path, place: tuple[str | int, ...]
) -> None:
    for value in HOSTILE:
        content = document()
        inner = content
        for step in place[:-1]:
            inner = inner[step]
        inner[place[-1]] = value
        with pytest.raises(SpecError) as refused:
            read(tmp_path, content)
        message = str(refused.value)
        assert ".".join(map(str, place)) in message, value
        assert "\n" not in message


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"clients": []}, "clients: write at least 1 entry$"),
        ({"nosuch": 1}, "nosuch: unknown key"),
        ({"server": None}, "server: "),
        ({"hours": {"start": 1200, "end": "06:00"}}, "as HH:MM, such as 20:00"),
        ({"hours": {"start": "20", "end": "06:00"}}, "hours.start: write a time of day as HH:MM"),
        ({"hours": {"start": "20:00Z", "end": "06:00"}}, "hours.start: write a time of day"),
        ({"hours": {"start": "20:00", "end": "24:00"}}, "hours.end: write a time of day"),
        ({"restore": {"after": "soon"}}, "restore.after: write a duration"),
        ({"restore": {"after": "19s"}}, "restore.after: write at least 20s"),
        ({"other_clients": ["fs9.example.org"]}, "is not an IP address"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, change: dict[str, object], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        read(tmp_path, document() | change)


def test_a_mistake_in_the_only_client_is_named_alone(tmp_path: Path) -> None:
    only = {**document()["clients"][0], "rach": {}}
    with pytest.raises(SpecError, match=r"clients.0.rach: unknown key; did you mean 'reach'\?$"):
        read(tmp_path, document() | {"clients": [only]})


def test_two_ways_to_one_host_are_refused(tmp_path: Path) -> None:
    content = document()
    content["clients"][2]["reach"] = {"local": {}, "netns": {"cell": "a", "node": "b"}}
    with pytest.raises(SpecError, match=r"clients\.2\.reach: name exactly one way"):
        read(tmp_path, content)


def test_names_must_differ(tmp_path: Path) -> None:
    content = document()
    content["clients"][1]["name"] = "c1"
    with pytest.raises(SpecError, match="two hosts have the name 'c1'"):
        read(tmp_path, content)


@pytest.mark.parametrize(
    ("reach", "message"),
    [
        ({"local": {}}, "c1 and here are the same host"),
        (
            {"ssh": {"address": "FS9.example.org", "user": "ada", "port": 22}},
            "fs9 and c1 are the same host",
        ),
        ({"ssh": {"address": "fs9.example.org", "port": 23}}, ""),
    ],
)
def test_hosts_must_differ(tmp_path: Path, reach: dict[str, object], message: str) -> None:
    content = document()
    content["server"]["reach"] = {"ssh": {"address": "fs9.example.org"}}
    content["clients"][0]["reach"] = reach
    if not message:
        read(tmp_path, content)
        return
    with pytest.raises(SpecError, match=message):
        read(tmp_path, content)


@pytest.mark.parametrize(
    ("address", "valid"),
    [
        ("fs1..example.org", False),
        ("fs1.example.org.", False),
        (f"{'x' * 64}.org", False),
        (f"{'x' * 63}.org", True),
        (".".join(["x" * 63] * 4), False),
        ("192.0.2.9", True),
        ("a-b.c", True),
    ],
)
def test_names_of_hosts_can_be_looked_up(tmp_path: Path, address: str, valid: bool) -> None:
    content = document()
    content["server"]["reach"] = {"ssh": {"address": address}}
    if valid:
        assert address.encode("idna")
        read(tmp_path, content)
        return
    with pytest.raises(SpecError, match="not a host name"):
        read(tmp_path, content)


def test_kernel_clients_by_their_units() -> None:
    file = read_testbed(DATA / "kernel.yaml")
    debian, redhat = (client_place(file, client) for client in file.clients)
    assert isinstance(debian, KernelPlace)
    assert isinstance(redhat, KernelPlace)
    assert (debian.file, debian.variable) == ("/etc/openafs/afs.conf", "OPTIONS")
    assert (redhat.file, redhat.variable) == ("/etc/sysconfig/openafs", "AFSD_ARGS")
    assert {client.control.program for client in file.clients} == {"afsd"}
    assert redhat.token is None
    assert debian.token == TokenPlace(
        keytab="/etc/fstune/bench.keytab",
        principal="bench",
        lifetime_s=36000.0,
        cell="example.org",
        realm="EXAMPLE.ORG",
        directory="/var/lib/fstune-restore/restore",
    )


@pytest.mark.parametrize("key", ["keytab", "principal", "cell", "realm"])
def test_token_values_that_could_be_more_than_data_are_refused(tmp_path: Path, key: str) -> None:
    for value in HOSTILE:
        content = yaml.safe_load((DATA / "kernel.yaml").read_text())
        content["clients"][0]["token"][key] = value
        with pytest.raises(SpecError, match=rf"clients\.0\.token\.{key}: ") as refused:
            read(tmp_path, content)
        assert "\n" not in str(refused.value)


def test_clients_without_token_support_are_given_none(tmp_path: Path) -> None:
    content = document()
    content["clients"][0]["token"] = {"keytab": "/etc/keytab", "principal": "bench"}
    with pytest.raises(SpecError, match=r"afsd\.fuse takes no tokens"):
        read(tmp_path, content)


@pytest.mark.parametrize(
    ("control", "message"),
    [
        ({}, "name exactly one way: fuse, systemd or sysconfig"),
        ({"fuse": {}, "systemd": {}}, "name exactly one way"),
        ({"systemd": {}}, "all clients must run the same program"),
        ({"systemd": {"variable": "A=b; c"}}, r"systemd\.variable: not a name"),
        ({"systemd": {"file": "../afs.conf"}}, r"systemd\.file: not an absolute path"),
    ],
)
def test_one_way_to_control_a_client(
    tmp_path: Path, control: dict[str, object], message: str
) -> None:
    content = document()
    content["clients"][0]["control"] = control
    with pytest.raises(SpecError, match=message):
        read(tmp_path, content)
