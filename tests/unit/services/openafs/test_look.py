"""What is said of hosts that do not answer while a testbed is inspected."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.services.openafs.test_preflight import FILE, PROGRAMS, SERVER
from tuner.errors import TestbedError, TransportError
from tuner.hosts.connections import Hosts
from tuner.hosts.connector import CommandResult
from tuner.hosts.local import LocalConnector
from tuner.services.openafs import hosts
from tuner.services.openafs.assembly import Requirements
from tuner.services.openafs.facts import ServerFacts
from tuner.services.openafs.hosts import HostsTestbed


class Away(LocalConnector):
    """A host that no longer answers."""

    def ask(self, *_: object, **__: object) -> CommandResult:
        raise TransportError("no route to host")


def test_every_client_that_does_not_answer_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where it has answered at first."""
    monkeypatch.setattr(hosts, "host_facts", lambda *_: SERVER)
    monkeypatch.setattr(hosts, "server_facts", lambda *_, **__: PROGRAMS)
    monkeypatch.setattr(Hosts, "_connect", lambda *_: Away())
    monkeypatch.setattr(Hosts, "check_files", lambda *_: None)
    requirements = Requirements(fileserver=None, cache_manager=None)  # type: ignore[arg-type]
    with pytest.raises(TransportError) as caught:
        hosts.look(FILE, Hosts(FILE, tmp_path, tmp_path), requirements)
    assert str(caught.value) == "; ".join(
        f"{name}: no route to host" for name in ("c1", "c2", "here")
    )


STOPPED = replace(PROGRAMS, state="(type is dafs) disabled, currently shutdown", volumes=None)
GIVEN_UP = replace(
    STOPPED, state="(type is dafs) temporarily disabled, stopped for too many errors"
)


@pytest.mark.parametrize(
    ("programs", "refused"),
    [(STOPPED, True), (replace(STOPPED, cut_off=True), False), (GIVEN_UP, False)],
)
def test_a_fileserver_that_somebody_has_stopped_is_not_started_by_a_rollback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, programs: ServerFacts, *, refused: bool
) -> None:
    """One that an interrupted run has stopped is, and so is one that bosserver has given up."""
    monkeypatch.setattr(hosts, "look", lambda *_: hosts.Survey(SERVER, programs, (), ()))
    requirements = Requirements(fileserver=None, cache_manager=None)  # type: ignore[arg-type]
    testbed = HostsTestbed(FILE, tmp_path, tmp_path, requirements, putting_back=True)
    monkeypatch.setattr(Hosts, "_connect", lambda *_: Away())
    workload: Any = SimpleNamespace(size_bytes=0)
    expected = "currently shutdown; start it first: bos start 192.0.2.9 dafs -localauth"
    with pytest.raises(TestbedError, match=expected) if refused else nullcontext():
        testbed.look(Hosts(FILE, tmp_path, tmp_path), "", workload)
