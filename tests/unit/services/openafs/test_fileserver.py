"""A fileserver's instance as it is when fstune comes to it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.unit.services.openafs.network_host import PROGRAM, NetworkHost, attach
from tests.waiting import wait_for
from tuner.errors import ConfigurationError, TestbedError
from tuner.hosts.connector import CommandResult, CommandTimeout
from tuner.services.openafs.bosserver import is_restricted
from tuner.services.openafs.facts import server_facts
from tuner.services.openafs.testbed_file import read_testbed

SECTION = read_testbed(Path(__file__).parents[3] / "data" / "testbeds" / "everything.yaml").server


@pytest.mark.slow
def test_an_instance_of_another_type_is_refused(server_host: NetworkHost) -> None:
    server_host.write("type", "fs")
    with pytest.raises(TestbedError, match=r"fs9: .* dafs is \(type is fs\) .* under server\.inst"):
        attach(server_host)
    assert (server_host.calls(), server_host.journals()) == ([], [])


@pytest.mark.slow
def test_one_that_is_stopped_is_started_by_its_own_options(server_host: NetworkHost) -> None:
    assert attach(server_host).apply({"threads": 12}) is None
    (server_host.here / "stopped").touch()
    assert attach(server_host).apply({"threads": 12}) == "restart"
    assert server_host.calls() == ["start"]


@pytest.mark.slow
def test_what_a_restricted_bosserver_lets_be_stopped_is_started_again(
    server_host: NetworkHost,
) -> None:
    """It may have become restricted after the inspection of the host."""
    (server_host.here / "restricted").touch()
    assert is_restricted(server_host, server_host.place.address)
    server = attach(server_host)
    with pytest.raises(TestbedError, match="not authorized"):
        server.apply({"threads": 20})
    assert (server_host.here / "stopped").exists()
    assert server.restore() == f"fileserver on fs9 restarted as found: {PROGRAM} -p 12"
    assert (server_host.calls(), server_host.journals()) == (["start"], [])


def test_a_bosserver_that_is_not_restricted(server_host: NetworkHost) -> None:
    assert not is_restricted(server_host, server_host.place.address)


@pytest.mark.slow
def test_one_that_an_interrupted_run_has_deleted_is_no_error(
    server_host: NetworkHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tuner.services.openafs.facts._PAUSE_S", 0.0)
    directory = str(server_host.here)
    attach(server_host).apply({"threads": 20})
    hanging = server_facts(server_host, SECTION, directory)  # its rxdebug lists no clients
    assert (hanging.cut_off, hanging.volumes) == (True, None)
    assert "-p 20" in hanging.lines()["command"]
    server_host.run(["bos", "delete"])
    absent = server_facts(server_host, SECTION, directory)
    assert (absent.cut_off, absent.volumes, absent.commands) == (True, None, ())
    assert absent.lines() == {"state": absent.state, "command": "none"}
    assert "restarted as found" in attach(server_host).restore()
    (server_host.here / "commands").unlink()
    with pytest.raises(TestbedError, match="no such entity"):
        server_facts(server_host, SECTION, directory)  # the journal is gone


@pytest.mark.parametrize("status", [0, 1])
def test_an_address_where_no_bosserver_answers_is_named(
    server_host: NetworkHost, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    """bos succeeds there, and writes its reason to standard error."""

    def unanswered(host: NetworkHost, argv: Sequence[str], **options: Any) -> CommandResult:
        assert argv[:2] == ["bos", "status"]
        return CommandResult(tuple(argv), status, "", "bos: communications failure\n")

    monkeypatch.setattr(NetworkHost, "ask", unanswered)
    expected = "fs9: bos status 192.0.2.9 dafs: bos: communications failure; check server.address"
    with pytest.raises(TestbedError, match=expected):
        server_facts(server_host, SECTION)


def test_a_fileserver_that_does_not_answer_is_not_described_by_its_tool(
    server_host: NetworkHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """bosserver calls a hanging one running; of one that is stopped, its state says enough."""
    ask = NetworkHost.ask

    def answer(host: NetworkHost, argv: Sequence[str], **options: Any) -> CommandResult:
        assert argv[0] != "vos"
        if argv[0] == "rxdebug":
            return CommandResult(tuple(argv), 1, "getstats call failed with code -1\n", "")
        return ask(host, argv, **options)

    monkeypatch.setattr(NetworkHost, "ask", answer)
    expected = "fs9: the fileserver of dafs does not answer at 192.0.2.9 port 7000, though bosserv"
    with pytest.raises(TestbedError, match=expected):
        server_facts(server_host, SECTION)
    server_host.run(["bos", "shutdown"])
    facts = server_facts(server_host, SECTION)
    assert "disabled" in facts.state
    assert (facts.volumes, facts.quota_kib) == (None, None)


@pytest.mark.parametrize(("volume", "quota"), [("bench", (0, 2)), ("benhc", (None, 0))])
def test_a_volume_that_is_not_there_has_no_quota(
    server_host: NetworkHost,
    monkeypatch: pytest.MonkeyPatch,
    root: Path,
    volume: str,
    quota: tuple[int | None, int],
) -> None:
    """The preflight names it, so asking for it must not fail first."""
    files = {
        ("rxdebug", "192.0.2.9"): "rxdebug-server-connections",
        ("vos", "listvol"): "vos-listvol",
        ("vos", "examine"): "vos-examine",
    }
    ask = NetworkHost.ask

    def answer(host: NetworkHost, argv: Sequence[str], **options: Any) -> CommandResult:
        if argv[:3] == ["vos", "examine", "benhc"]:
            return CommandResult(tuple(argv), 255, "", "VLDB: no such entry\n")
        if (name := files.get((argv[0], argv[1]))) is not None:
            text = (root / f"tests/data/openafs/{name}.txt").read_text()
            return CommandResult(tuple(argv), 0, text, "")
        return ask(host, argv, **options)

    monkeypatch.setattr(NetworkHost, "ask", answer)
    facts = server_facts(server_host, SECTION.model_copy(update={"volumes": (volume,)}))
    assert facts.replaced_by == ""
    assert (facts.quota_kib, facts.used_kib) == quota
    assert ("quota" in facts.lines()) == (quota[0] is not None)
    assert facts.volumes is not None
    assert (volume in facts.volumes) == (volume == "bench")


@pytest.mark.slow
def test_one_that_hangs_before_the_first_change_is_ended(
    server_host: NetworkHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = attach(server_host)
    run = NetworkHost.run

    def hanging(host: NetworkHost, argv: Sequence[str], **options: Any) -> CommandResult:
        if argv[0] == "xstat_fs_test":
            raise CommandTimeout(host.host, argv, "not finished after 5 s")
        return run(host, argv, **options)

    monkeypatch.setattr(NetworkHost, "run", hanging)
    with pytest.raises(ConfigurationError, match="the fileserver does not answer"):
        server.read_back({"threads": 12})
    assert (server_host.here / "stopped").exists()
    assert server.restore() == f"fileserver on fs9 restarted as found: {PROGRAM} -p 12"
    assert (server_host.calls(), server_host.journals()) == (["start"], [])


def answer_pidof(host: NetworkHost, *pids: int) -> None:
    pidof = host.here / "bin" / "pidof"
    pidof.write_text(f"#!/bin/sh\necho {' '.join(map(str, pids))}\n")
    pidof.chmod(0o755)


@pytest.mark.slow
def test_the_limit_of_open_files_is_that_of_bosserver(server_host: NetworkHost) -> None:
    """Not that of the session that asks. It is inherited by the fileserver, which may be down."""
    limited = ["prlimit", "--nofile=1024:2048", "sleep", "60"]
    with subprocess.Popen(limited) as bosserver:
        try:
            answer_pidof(server_host, bosserver.pid)
            wait_for(lambda: attach(server_host).facts["nofile"] == 2048, "the limit")
        finally:
            bosserver.kill()


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="needs processes of two users")
def test_the_limit_is_not_that_of_a_local_user_s_process(server_host: NetworkHost) -> None:
    limited = ["prlimit", "--nofile=1024:2048", "sleep", "60"]
    decoy = ["prlimit", "--nofile=30:30", "sleep", "60"]
    with subprocess.Popen(limited) as bosserver, subprocess.Popen(decoy, user=1234) as other:
        try:
            answer_pidof(server_host, other.pid, bosserver.pid)
            wait_for(lambda: attach(server_host).facts["nofile"] == 2048, "the limit")
        finally:
            bosserver.kill()
            other.kill()
