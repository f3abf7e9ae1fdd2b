"""A PostgreSQL server shared by all tests of a run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.postgresql import Server, running
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
