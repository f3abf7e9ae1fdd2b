"""Versions of the programs: those of the fileserver and of every client, after their starts."""

from __future__ import annotations

import re
from pathlib import Path
from typing import cast

import pytest

import search_spaces
from tests.unit.services.openafs.kernel_client import Machine
from tests.unit.services.openafs.network_host import PROGRAM, NetworkHost, attach
from tests.unit.services.openafs.test_client_runtime import SPACE, runtime
from tests.unit.services.openafs.test_first_look import AnsweringHost
from tests.unit.services.openafs.test_wiped_cache import ANSWERS, fuse
from tuner.errors import TestbedError
from tuner.hosts.connector import Connector
from tuner.services.openafs.cache_manager import CacheManager
from tuner.services.openafs.client import versions
from tuner.services.openafs.client_runtime import ClientRuntime
from tuner.services.openafs.fuse import FuseClient

pytestmark = pytest.mark.slow

#: As rxdebug of a real server prints it.
DATA = Path(__file__).parents[3] / "data" / "openafs"
RECORDED = DATA / "rxdebug-version.txt"
OLD, NEW = "OpenAFS 1.8.9-1+deb12u1-debian 2024-12-25", "OpenAFS 1.8.9-1+deb12u2-debian 2026-11-20"


def install(host: NetworkHost, version: str) -> None:
    """Replace the fileserver's program on disk; what runs stays as it is."""
    host.write("installed", RECORDED.read_text().replace(OLD, version))


def start_again(host: NetworkHost) -> None:
    """As the scripts of a package do."""
    for verb in ("stop", "start"):
        host.run(["bos", verb])


def queries(host: NetworkHost, port: int = 7000) -> int:
    """How often the version was asked."""
    path = host.here / f"asked-{port}"
    return len(path.read_text().splitlines()) if path.exists() else 0


@pytest.fixture
def recorded(server_host: NetworkHost) -> NetworkHost:
    install(server_host, OLD)
    start_again(server_host)
    server_host.calls()
    return server_host


def test_the_version_is_that_of_the_fileserver_itself(recorded: NetworkHost) -> None:
    """bosserver may still be the old program after an upgrade."""
    assert attach(recorded).identity == f"dafileserver {OLD}"
    assert queries(recorded, 7007) == 0


def test_it_is_asked_once_for_each_start(recorded: NetworkHost) -> None:
    server = attach(recorded)
    server.incarnation()
    assert (server.apply({"threads": 12}), queries(recorded)) == (None, 1)
    for threads in (20, 30):
        assert server.apply({"threads": threads}) == "restart"
        server.incarnation()
    assert queries(recorded) == 3


def test_an_upgrade_ends_the_run_at_the_next_restart(recorded: NetworkHost) -> None:
    server = attach(recorded)
    server.apply({"threads": 20})
    install(recorded, NEW)
    assert server.apply({"threads": 20}) is None
    server.incarnation()
    with pytest.raises(TestbedError, match=r"fs9: the program of .* dafs has been replaced") as e:
        server.apply({"threads": 30})
    message = str(e.value)
    assert f"it was {OLD}, and since its last start it is {NEW};" in message
    assert message.endswith(f"install {OLD} again and resume, or start a new campaign")
    assert server.restore() == f"fileserver on fs9 restarted as found: {PROGRAM} -p 12"
    assert attach(recorded).identity == f"dafileserver {NEW}"  # what a resumed campaign compares


def test_an_upgrade_that_restarts_the_server_is_noticed_too(recorded: NetworkHost) -> None:
    server = attach(recorded)
    server.apply({"threads": 20})
    before = server.incarnation()
    start_again(recorded)
    assert server.incarnation() != before
    install(recorded, NEW)
    start_again(recorded)
    with pytest.raises(TestbedError, match="has been replaced meanwhile"):
        server.incarnation()
    assert "restarted as found" in server.restore()


def test_the_first_answer_counts_if_the_server_was_down(recorded: NetworkHost) -> None:
    (recorded.here / "stopped").touch()
    server = attach(recorded)
    assert (server.identity, queries(recorded)) == ("dafileserver OpenAFS 1.8.9", 0)  # of bosserver
    server.apply({"threads": 20})
    assert server.version.text == OLD
    install(recorded, NEW)
    with pytest.raises(TestbedError, match="has been replaced meanwhile"):
        server.apply({"threads": 30})


def test_a_server_that_does_not_answer_is_asked_again(recorded: NetworkHost) -> None:
    server = attach(recorded)
    status = "echo get version call failed with code -1, errno 0; exit 1"
    rxdebug = recorded.here / "bin" / "rxdebug"
    before = rxdebug.read_text()
    rxdebug.write_text(f"#!/bin/sh\n{status}\n")
    server.apply({"threads": 20})
    rxdebug.write_text(before)
    server.incarnation()
    server.incarnation()
    assert (server.version.text, queries(recorded)) == (OLD, 2)


def test_a_restart_that_is_asked_for_is_made(recorded: NetworkHost) -> None:
    server = attach(recorded)
    assert server.apply({"threads": 12}) is None
    assert server.apply({"threads": 12}, restart=True) == "restart"
    assert recorded.calls() == ["start"]


def client(name: str, version: str) -> Connector:
    host = AnsweringHost({**ANSWERS, "fs -version": f"{version}\n"})
    host.host = name
    return cast("Connector", host)


def test_every_client_is_asked_for_its_version() -> None:
    one, same, other = client("c1", "openafs 1"), client("c2", "openafs 1"), client("c3", "other")
    assert versions([one, same]) == "openafs 1"
    assert versions([one, same, other]) == "openafs 1; other"
    clients = [fuse(host, "-dynroot", "/cache") for host in (one, other)]
    space = search_spaces.load("openafs-cache-manager-fuse-1.8")
    identity = CacheManager.attach(clients, "afsd.fuse", space).identity
    assert identity == "afsd.fuse openafs 1; other"


REPLACED = (
    f"the cache manager has been replaced meanwhile: it was {OLD}, and since its last start it is "
    f"{NEW}; "
)


def test_a_kernel_client_is_asked_once_for_each_start(machine: Machine) -> None:
    kernel_client, questions = machine.client(), machine.here / "versions"
    kernel_client.effective()
    assert not questions.exists()  # as found, it may be another one than what is installed
    (machine.here / "version").write_text(OLD)
    for _ in range(2):
        kernel_client.start([])
        kernel_client.effective()
        kernel_client.effective()
    assert questions.read_text().splitlines() == ["version"] * 2
    (machine.here / "version").write_text(NEW)
    kernel_client.effective()
    kernel_client.start([])
    with pytest.raises(TestbedError, match=re.escape(REPLACED)):
        kernel_client.effective()
    # Restoring is never refused, nor is reading back what is then in effect.
    (machine.here / "version").write_text(OLD)
    kernel_client.start([])
    assert "as found" in kernel_client.restore()
    (machine.here / "version").write_text(NEW)
    kernel_client.effective()


def test_a_kernel_client_that_does_not_tell_its_version_is_no_error(machine: Machine) -> None:
    kernel_client = machine.client()
    for version in (OLD, "", OLD):
        (machine.here / "version").write_text(version)
        kernel_client.start([])
        kernel_client.effective()
    (machine.here / "bin" / "rxdebug").write_text("#!/bin/sh\nexit 1\n")
    kernel_client.start([])
    kernel_client.effective()
    assert kernel_client.version.text == OLD


def test_an_upgrade_of_a_client_in_user_space_is_noticed_at_the_port_that_it_has() -> None:
    answers = {
        "sh -s": "found 7 616673642e6675736500 /usr/sbin/afsd.fuse\nmount root\n",
        "ss -uanpH": 'UNCONN 0 0 0.0.0.0:45636 0.0.0.0:* users:(("afsd.fuse",pid=7,fd=3))\n',
        "cmdebug 127.0.0.1 -port 45636 -cache": (DATA / "cmdebug-cache.txt").read_text(),
        "rxdebug 127.0.0.1 45636 -version": f"AFS version: {OLD}\n",
    }
    fuse_client = fuse(cast("Connector", AnsweringHost(answers)), "-dynroot", "/cache")
    assert isinstance(fuse_client, FuseClient)
    for version, is_due in ((OLD, True), (NEW, False)):
        answers["rxdebug 127.0.0.1 45636 -version"] = f"AFS version: {version}\n"
        fuse_client.version.is_due = is_due
        fuse_client.effective()
    fuse_client.version.is_due = True
    with pytest.raises(TestbedError, match=re.escape(REPLACED)):
        fuse_client.effective()


def test_runtime_settings_are_of_every_client_too(machine: Machine) -> None:
    lives = [runtime(machine)[1].live, runtime(machine)[1].live]
    assert lives[0] is not None
    assert lives[1] is not None
    lives[1].host = client("c2", "openafs 2")
    part = ClientRuntime.attach([lives[0], lives[1]], SPACE)
    assert part.identity == "fs openafs 1.8.9-1-debian; openafs 2"


def test_runtime_settings_are_set_anew(machine: Machine) -> None:
    part, kernel_client = runtime(machine)
    kernel_client.start([])
    part.apply({"crypt": "off"})
    before = len(machine.calls())
    assert part.apply({"crypt": "off"}) is None
    assert part.apply({"crypt": "off"}, restart=True) == "set"
    calls = machine.calls()[before:]
    assert [call for call in calls if call.split()[0] in ("setcrypt", "aklog")] == [
        "setcrypt off",
        "aklog -force -k EXAMPLE.ORG",
    ]
