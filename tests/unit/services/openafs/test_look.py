"""What is said of hosts that do not answer while a testbed is inspected."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.services.openafs.test_preflight import FILE, PROGRAMS, SERVER
from tuner.errors import TransportError
from tuner.hosts.connections import Hosts
from tuner.hosts.connector import CommandResult
from tuner.hosts.local import LocalConnector
from tuner.services.openafs import hosts
from tuner.services.openafs.assembly import Requirements


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
