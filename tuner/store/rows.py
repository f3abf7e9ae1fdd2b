"""Conversion between records and rows: a field is stored in the column of its name, if any."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from datetime import datetime
from functools import cache
from math import isnan
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import Row, Table

from tuner.states import EventData

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Record = TypeVar("Record", bound="DataclassInstance")


@dataclass(frozen=True, slots=True)
class NewEvent:
    """An event without a number yet: the store assigns the next one of its campaign."""

    at: datetime
    kind: str
    message: str
    data: EventData = field(default_factory=dict)


def values(table: Table, record: DataclassInstance, **columns: object) -> dict[str, object]:
    """Return the row of ``table`` for ``record``, with ``columns`` added.

    Raises ValueError for NaN, which SQLite would store as NULL.
    """
    names = [column.name for column in fields(record) if column.name in table.c]
    row = {name: getattr(record, name) for name in names}
    for name, value in row.items():
        if isinstance(value, float) and isnan(value):
            raise ValueError(f"{name} is not a number")
    return columns | row


def record(kind: type[Record], row: Row[Any], **others: object) -> Record:
    """Return the record of a row, with ``others`` for the fields stored elsewhere."""
    columns = row._mapping
    return kind(**{name: columns[name] for name in _names(kind, frozenset(others))}, **others)


@cache
def _names(kind: type[DataclassInstance], without: frozenset[str]) -> tuple[str, ...]:
    return tuple(column.name for column in fields(kind) if column.name not in without)
