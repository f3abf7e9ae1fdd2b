"""The statements that create the tables of an empty database."""

from __future__ import annotations

import pytest
from sqlalchemy import create_mock_engine
from sqlalchemy.schema import ExecutableDDLElement

from tuner.store import tables
from tuner.store.schema import creation


@pytest.mark.parametrize("url", ["sqlite://", "postgresql+psycopg://"])
def test_they_are_those_of_the_library(url: str) -> None:
    statements: list[str] = []

    def execute(sql: ExecutableDDLElement, *_: object, **__: object) -> None:
        statements.append(str(sql.compile(dialect=engine.dialect)))

    engine = create_mock_engine(url, execute)
    tables.metadata.create_all(engine, checkfirst=False)
    (*ours, version) = creation(engine.dialect)
    assert sorted(ours) == sorted(statements)
    assert version.split()[:3] == ["CREATE", "TABLE", "alembic_version"]
    assert creation(engine.dialect) is creation(engine.dialect)
