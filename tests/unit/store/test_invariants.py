"""What the database itself refuses, whoever writes to it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy.dialects import postgresql
from sqlalchemy.schema import CreateIndex, CreateTable

from tests.unit.store import records
from tuner.store import Store, tables
from tuner.store.store import FILE


@pytest.fixture
def raw(store: Store, state_directory: Path) -> Iterator[sqlite3.Connection]:
    """Return a bare connection to a database that has a row in every table."""
    campaign = records.begun(store)
    store.begin_block(campaign, records.block(1), records.event())
    store.add_measurement(campaign, 1, records.measurement(0), records.event())
    store.save_recommendation(campaign, records.recommendation(), records.event())
    with closing(sqlite3.connect(state_directory / FILE)) as connection:
        connection.execute("PRAGMA foreign_keys = ON")
        yield connection


def copy(raw: sqlite3.Connection, table: str, **changes: object) -> None:
    """Insert a copy of the first row of a table with some columns changed."""
    cursor = raw.execute(f'SELECT * FROM "{table}" LIMIT 1')
    row = dict(zip((column[0] for column in cursor.description), cursor.fetchone(), strict=True))
    row |= changes
    marks = ", ".join("?" * len(row))
    columns = ", ".join(f'"{name}"' for name in row)
    raw.execute(f'INSERT INTO "{table}" ({columns}) VALUES ({marks})', tuple(row.values()))


@pytest.mark.parametrize(
    ("table", "changes"),
    [
        ("trial", {"number": 2}),
        ("block", {"number": 2, "state": "complete"}),
        ("measurement", {"trial": 1, "position": 1}),
        ("component", {"component": "other"}),
        ("component", {"component": "other", "elapsed_s": "1.5"}),
        ("event", {"number": 99}),
        ("campaign", {"id": "other"}),
    ],
)
def test_a_sound_row_is_accepted(
    raw: sqlite3.Connection, table: str, changes: dict[str, object]
) -> None:
    copy(raw, table, **changes)


@pytest.mark.parametrize(
    ("table", "changes"),
    [
        ("trial", {}),
        ("trial", {"number": -1}),
        ("trial", {"number": 2, "state": "better"}),
        ("trial", {"number": 2, "campaign": "none"}),
        ("trial", {"number": 2, "configuration": None}),
        ("trial", {"number": 2, "race": -1}),
        ("block", {"state": "complete"}),
        ("block", {"number": 0, "state": "complete"}),
        ("block", {"number": 2, "state": "running"}),
        ("block", {"number": 2, "state": "ended"}),
        ("block", {"number": 2, "state": "complete", "kind": "other"}),
        ("block", {"number": 2, "state": "complete", "campaign": "none"}),
        ("block", {"number": 2, "state": "complete", "duration_s": -1.0}),
        ("measurement", {"position": 1}),
        ("measurement", {"trial": 1}),
        ("measurement", {"trial": 9, "position": 1}),
        ("measurement", {"block": 9}),
        ("measurement", {"trial": 1, "position": -1}),
        ("measurement", {"trial": 1, "position": 1, "workload_s": float("inf")}),
        ("measurement", {"trial": 1, "position": 1, "workload_s": float("nan")}),
        ("component", {}),
        ("component", {"trial": 1}),
        ("component", {"component": "other", "elapsed_s": 0.0}),
        ("component", {"component": "other", "elapsed_s": float("inf")}),
        ("component", {"component": "other", "elapsed_s": None}),
        ("component", {"component": "other", "elapsed_s": "fast"}),
        ("component", {"component": "other", "p50_s": "fast"}),
        ("component", {"component": "other", "operations": -1}),
        ("event", {}),
        ("event", {"number": 0}),
        ("event", {"number": 99, "campaign": "none"}),
        ("campaign", {}),
        ("campaign", {"id": "other", "state": "pausing"}),
        ("recommendation", {}),
        ("effect", {}),
        ("effect", {"campaign": "none"}),
        ("schema_version", {"id": 2}),
    ],
)
def test_an_unsound_row_is_refused(
    raw: sqlite3.Connection, table: str, changes: dict[str, object]
) -> None:
    with pytest.raises(sqlite3.IntegrityError):
        copy(raw, table, **changes)


@pytest.mark.parametrize("table", ["campaign", "trial", "block", "measurement"])
def test_what_others_refer_to_stays(raw: sqlite3.Connection, table: str) -> None:
    with pytest.raises(sqlite3.IntegrityError):
        raw.execute(f"DELETE FROM {table}")


def test_numbers_are_stored_as_numbers(raw: sqlite3.Connection) -> None:
    times = "typeof(elapsed_s), typeof(p50_s), typeof(bytes)"
    assert raw.execute(f"SELECT {times} FROM component WHERE component = 'copy'").fetchall() == [
        ("real", "real", "integer")
    ]


def test_the_same_tables_in_postgresql() -> None:
    dialect = postgresql.dialect()  # type: ignore[no-untyped-call]
    created = {
        t.name: str(CreateTable(t).compile(dialect=dialect))
        for t in tables.metadata.tables.values()
    }
    assert "elapsed_s DOUBLE PRECISION NOT NULL" in created["component"]
    assert "started TIMESTAMP WITH TIME ZONE NOT NULL" in created["measurement"]
    assert "state IN ('running', 'complete', 'void')" in created["block"]
    (index,) = tables.block.indexes
    statement = str(CreateIndex(index).compile(dialect=dialect))
    assert statement.startswith("CREATE UNIQUE INDEX")
    assert statement.endswith("(campaign) WHERE state = 'running'")
