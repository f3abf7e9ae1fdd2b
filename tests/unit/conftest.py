"""A PostgreSQL server that the tests of a run share."""

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
    """Return a database with our tables, of which others are copies."""
    name = postgresql.new()
    Store.open(Path("unused"), postgresql.url(name)).close()
    return name


@pytest.fixture(scope="session")
def reused(postgresql: Server, template: str) -> str:
    """Return a database that one test after the other uses: a new one takes 8 MB of disk."""
    return postgresql.new(template)
