"""What somebody else has changed after an application is compared with what was applied."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

import search_spaces
from tests.unit.services.openafs.applications import open_lasting
from tests.unit.services.openafs.kernel_client import Machine
from tests.unit.services.openafs.network_host import COMPANIONS, PROGRAM, NetworkHost, attach
from tuner.apply.open_testbed import OpenTestbed
from tuner.hosts.connector import Connector
from tuner.hosts.local import LocalConnector
from tuner.model import Configuration
from tuner.services.openafs.cache_manager import CacheManager
from tuner.services.openafs.client import Client
from tuner.services.openafs.fileserver import Fileserver
from tuner.services.openafs.fuse import FuseClient, FusePlace
from tuner.services.target import Target

NAME = "a1"
CACHE = search_spaces.load("openafs-cache-manager-linux-1.8")
BEFORE = Configuration.of({"fileserver.threads": 12})
AFTER = Configuration.of({"fileserver.threads": 20})
APPLIED = f"{PROGRAM} -p 20"


def open_server(host: NetworkHost) -> OpenTestbed:
    return open_lasting(NAME, Target({"fileserver": attach(host)}))


def apply(host: NetworkHost) -> Fileserver:
    server = attach(host)
    server.apply({"threads": 20})
    server.keep(NAME)
    assert open_server(host).changed_since(BEFORE, AFTER) == ()
    return server


@pytest.mark.slow
def test_an_instance_that_somebody_has_created_again_is_told_by_every_line(
    server_host: NetworkHost,
) -> None:
    apply(server_host)
    audited = f"{APPLIED} -auditlog /var/log/openafs/audit"
    volserver = f"{COMPANIONS[0]} -p 9"
    server_host.write("commands", "\n".join([audited, volserver]))
    server_host.write("notifier", "/usr/local/sbin/tell")
    assert open_server(server_host).changed_since(BEFORE, AFTER) == (
        f"fs9: command 1 of the instance is {audited}, where {APPLIED} was applied",
        f"fs9: command 2 of the instance is {volserver}, where {COMPANIONS[0]} was applied",
        f"fs9: command 3 of the instance is none, where {COMPANIONS[1]} was applied",
        "fs9: the notifier of the instance is /usr/local/sbin/tell, where none was applied",
    )


@pytest.mark.slow
def test_a_notifier_alone_is_a_change(server_host: NetworkHost) -> None:
    apply(server_host)
    server_host.write("notifier", "/usr/local/sbin/tell")
    (sentence,) = open_server(server_host).changed_since(BEFORE, AFTER)
    assert "notifier" in sentence


@pytest.mark.slow
def test_an_edit_that_bosserver_does_not_run_is_a_change(server_host: NetworkHost) -> None:
    config = server_host.here / "BosConfig"
    config.touch()
    apply(server_host)
    config.write_text(config.read_text().replace("-p 20", "-p 64"))
    assert open_server(server_host).changed_since(BEFORE, AFTER) == (
        "fs9: /etc/openafs/BosConfig (dafs) is not what bosserver runs",
    )


@pytest.mark.slow
def test_an_instance_as_before_the_application_is_no_change(server_host: NetworkHost) -> None:
    apply(server_host)
    server_host.write("commands", "\n".join([f"{PROGRAM} -p 12", *COMPANIONS]))
    assert open_server(server_host).changed_since(BEFORE, AFTER) == ()


@pytest.mark.slow
def test_what_a_campaign_that_was_cut_off_has_left_is_no_change(server_host: NetworkHost) -> None:
    apply(server_host)
    attach(server_host).apply({"threads": 30})
    assert open_server(server_host).changed_since(BEFORE, AFTER) == ()


def cache_manager(client: Client) -> CacheManager:
    parsed = CACHE.parse(list(client.options))
    return CacheManager([client], CACHE, "afsd", parsed.values, {}, [parsed.rest])


@pytest.mark.slow
def test_a_file_of_options_that_somebody_has_changed_is_a_change(machine: Machine) -> None:
    file = machine.here / "afs.conf"
    original = file.read_text()
    client = machine.client()
    client.start(["-chunksize", "20", "-afsdb"])
    client.keep(NAME)
    applied = file.read_text()
    assert cache_manager(machine.client()).changed_since(NAME) == ()
    file.write_text(f"# no option, and yet it would be lost\n{applied}")
    (sentence,) = cache_manager(machine.client()).changed_since(NAME)
    assert f"{file} is no longer as it was written, with the options -chunksize 20" in sentence
    file.write_text(original)
    assert cache_manager(machine.client()).changed_since(NAME) == ()


@pytest.mark.slow
def test_a_file_as_a_campaign_that_was_cut_off_has_left_it_is_no_change(machine: Machine) -> None:
    for daemons in ("5", "6"):
        client = machine.client()
        client.start(["-daemons", daemons])
        if daemons == "5":
            client.keep(NAME)
    assert machine.journals() == ["cache_manager"]
    assert cache_manager(machine.client()).changed_since(NAME) == ()


def test_options_of_afsd_fuse_that_are_not_tuned_are_compared(tmp_path: Path) -> None:
    place = FusePlace("/afs", "/cache", "/afs/bench", str(tmp_path / "restore"))
    host = cast("Connector", LocalConnector())
    fuse = FuseClient(host, place, ("afsd.fuse", "-daemons", "3", "-afsdb"), "afsd.fuse")
    assert cache_manager(fuse).changed_since(NAME) == ()
    fuse._record()
    fuse.keep(NAME)
    fuse.command = ("afsd.fuse", "-afsdb", "-daemons", "5")
    assert cache_manager(fuse).changed_since(NAME) == ()
    fuse.command = ("afsd.fuse", "-nosettime", "-daemons", "5")
    (sentence,) = cache_manager(fuse).changed_since(NAME)
    assert sentence.endswith("the options of afsd.fuse are -nosettime, where -afsdb were left")
