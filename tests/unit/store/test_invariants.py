"""What the database itself refuses, no matter who writes to it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import Connection, Float, MetaData, Table, event, insert, null, select
from sqlalchemy.exc import DataError, IntegrityError
from sqlalchemy.types import NullType

from tests.unit.store import records
from tests.unit.store.conftest import Place
from tuner.store import Store


@pytest.fixture(scope="module")
def full_place(shared: Store, shared_place: Place) -> Place:
    """Return the place of a database that has a row in every table."""
    campaign = records.new_campaign(shared)
    shared.begin_block(campaign, records.block(1), records.event())
    shared.add_measurement(campaign, 1, records.measurement(0), records.event())
    shared.add_reference(campaign, 1, records.reference(), records.event())
    shared.save_recommendation(campaign, records.recommendation(), records.event())
    return shared_place


@pytest.fixture(scope="module")
def metadata(full_place: Place) -> MetaData:
    """Return what is known about the tables of that database: it is not asked twice."""
    tables = MetaData()
    event.listen(tables, "column_reflect", as_they_come)
    return tables


@pytest.fixture
def raw(full_place: Place) -> Iterator[Connection]:
    """Return a plain connection to that database; what a test does with it is rolled back."""
    with full_place.raw() as connection:
        yield connection


def as_they_come(_inspector: object, _table: Table, column: dict[str, Any]) -> None:
    """Accept text in numeric columns, so that it is left to the database to refuse it."""
    if isinstance(column["type"], Float):
        column["type"] = NullType()


def copy(raw: Connection, metadata: MetaData, table: str, **changes: object) -> None:
    """Insert a copy of the first row of a table with some columns changed."""
    target = Table(table, metadata, autoload_with=raw, resolve_fks=False)
    row = dict(raw.execute(select(target).limit(1)).one()._mapping)
    row = {name: null() if value is None else value for name, value in (row | changes).items()}
    raw.execute(insert(target).values(row))


@pytest.mark.parametrize(
    ("table", "changes"),
    [
        ("trial", {"number": 2}),
        ("block", {"number": 2, "state": "complete"}),
        ("measurement", {"trial": 1, "position": 1}),
        ("component", {"component": "other"}),
        ("component", {"client": "one"}),
        ("component", {"component": "other", "elapsed_s": "1.5"}),
        ("event", {"number": 99}),
        ("campaign", {"id": "other"}),
    ],
)
def test_a_valid_row_is_accepted(
    raw: Connection, metadata: MetaData, table: str, changes: dict[str, object]
) -> None:
    copy(raw, metadata, table, **changes)


@pytest.mark.parametrize(
    ("table", "changes"),
    [
        ("trial", {}),
        ("trial", {"number": -1}),
        ("trial", {"number": 2, "state": "better"}),
        ("trial", {"number": 2, "campaign": "none"}),
        ("trial", {"number": 2, "configuration": None}),
        ("trial", {"number": 2, "round": -1}),
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
        ("reference", {}),
        ("reference", {"name": "other", "block": 9}),
        ("reference_component", {}),
        ("reference_component", {"name": "other"}),
        ("component", {"client": "one", "trial": 1}),
    ],
)
def test_an_invalid_row_is_refused(
    raw: Connection, metadata: MetaData, table: str, changes: dict[str, object]
) -> None:
    with pytest.raises((IntegrityError, DataError)):
        copy(raw, metadata, table, **changes)


@pytest.mark.parametrize("table", ["campaign", "trial", "block", "measurement", "reference"])
def test_referenced_rows_cannot_be_deleted(raw: Connection, table: str) -> None:
    with pytest.raises(IntegrityError):
        raw.exec_driver_sql(f"DELETE FROM {table}")


def test_numbers_are_stored_as_numbers(raw: Connection) -> None:
    kind = "typeof" if raw.dialect.name == "sqlite" else "pg_typeof"
    columns = ", ".join(f"{kind}({name})" for name in ("elapsed_s", "p50_s", "bytes"))
    query = f"SELECT {columns} FROM component WHERE component = 'copy'"
    assert tuple(raw.exec_driver_sql(query).one()) in [
        ("real", "real", "integer"),
        ("double precision", "double precision", "bigint"),
    ]
