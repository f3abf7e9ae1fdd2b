"""A PostgreSQL server shared by all tests of a run, and simulated testbeds that have clients."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.postgresql import Server, running
from tuner.services import kind
from tuner.services.simulated.kind import SimulatedType
from tuner.store import Store


@pytest.fixture(scope="session")
def postgresql(root: Path) -> Iterator[Server]:
    with running(root / "build" / "test-state" / "packages") as server:
        yield server


@pytest.fixture(scope="session")
def template(postgresql: Server) -> str:
    """Return the name of a database with our tables, which serves as a template for others."""
    name = postgresql.new()
    Store.open(Path("unused"), postgresql.url(name)).close()
    return name


@pytest.fixture(scope="session")
def reused(postgresql: Server, template: str) -> str:
    """Return the name of a database shared by successive tests: a new one takes 8 MB of disk."""
    return postgresql.new(template)


@pytest.fixture
def clients(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The clients of simulated testbeds, which have none otherwise."""
    names, identity = ["c1", "c2"], SimulatedType.identity

    def with_clients(self: SimulatedType, section: Any, directory: Path) -> kind.TestbedIdentity:
        return replace(identity(self, section, directory), clients=tuple(names))

    monkeypatch.setattr(SimulatedType, "identity", with_clients)
    return names
