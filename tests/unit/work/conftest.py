"""A store with a queue, in a PostgreSQL database of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ports import free_port
from tests.postgresql import Server
from tuner.store import Store
from tuner.store.queue import Queue


@pytest.fixture
def address(postgresql: Server, template: str) -> str:
    """Return the address of a database that no other test uses."""
    return postgresql.url(postgresql.new(template))


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def store(state: Path, address: str) -> Iterator[Store]:
    with Store.open(state, address) as store:
        yield store


@pytest.fixture
def queue(store: Store) -> Queue:
    return Queue.create(store)


@pytest.fixture
def unused_port() -> int:
    return free_port()
