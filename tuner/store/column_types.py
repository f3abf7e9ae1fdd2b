"""Column types that databases do not provide."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import JSON, BigInteger, DateTime, Dialect, TypeDecorator


class UtcTime(TypeDecorator[datetime]):
    """A point in time. Accepts aware times of any zone, returns UTC; ValueError for naive times."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"{value} has no time zone")
        return value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        # SQLite stores no time zone.
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class Seed(TypeDecorator[int]):
    """An unsigned 64-bit number, stored as the signed number with the same bits."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: int | None, dialect: Dialect) -> int | None:
        if value is None:
            return None
        return int.from_bytes(value.to_bytes(8), signed=True)

    def process_result_value(self, value: int | None, dialect: Dialect) -> int | None:
        return None if value is None else value % 2**64


class JsonShape(TypeDecorator[Any]):
    """A JSON value that is converted by the function ``shape`` when read."""

    impl = JSON
    cache_ok = True

    def __init__(self, shape: Callable[[Any], object]) -> None:
        super().__init__(none_as_null=True)
        self.shape = shape

    def process_result_value(self, value: Any | None, dialect: Dialect) -> object:
        return None if value is None else self.shape(value)
