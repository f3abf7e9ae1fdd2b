"""A new store for every test, in each kind of database."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from sqlalchemy import Connection

from tests.postgresql import Server
from tuner.store import Store
from tuner.store.opening import open_database


@dataclass(frozen=True)
class Place:
    """Where a store is."""

    state_directory: Path
    address: str | None = None

    def open(self) -> Store:
        return Store.open(self.state_directory, self.address)

    @contextmanager
    def raw(self) -> Iterator[Connection]:
        """Open a transaction without the store; it is rolled back unless it is committed."""
        database = open_database(self.state_directory, self.address)
        try:
            with database.writer.connect() as connection:
                yield connection
        finally:
            database.close()


@pytest.fixture
def name(postgresql: Server, reused: str) -> str:
    """Return the name of a database that has our tables, all empty."""
    postgresql.empty(reused)
    return reused


def place_of(request: pytest.FixtureRequest, directory: Path) -> Place:
    """Return an empty place of the kind in the parameter, for one test."""
    if request.param == "sqlite":
        return Place(directory)
    server: Server = request.getfixturevalue("postgresql")
    return Place(directory, server.url(request.getfixturevalue("name")))


KINDS = ("sqlite", pytest.param("postgresql", marks=pytest.mark.postgres))


@pytest.fixture
def state_directory(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, state_directory: Path) -> Place:
    return place_of(request, state_directory)


@pytest.fixture
def store(place: Place) -> Iterator[Store]:
    with place.open() as store:
        yield store


@pytest.fixture(scope="module", params=KINDS)
def shared_place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Place:
    """Return a place that the tests of a file share; what one of them stores, the next one sees."""
    directory = tmp_path_factory.mktemp("state")
    if request.param == "sqlite":
        return Place(directory)
    server: Server = request.getfixturevalue("postgresql")
    return Place(directory, server.url(server.new(request.getfixturevalue("template"))))


@pytest.fixture(scope="module")
def shared(shared_place: Place) -> Iterator[Store]:
    """Return the store there. An open store prepares each kind of statement only once."""
    with shared_place.open() as store:
        yield store
