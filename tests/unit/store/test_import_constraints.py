"""Rows of a file that the constraints of the tables exclude: a mistake in the file, not a conflict
in the database. And lines that are none.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy

from tests.unit.store.test_archive import filled, lines_of, rewritten
from tuner.errors import ConflictError, SpecError
from tuner.store import Store, problems, tables
from tuner.store import archive as archive_module
from tuner.store.archive import export_campaign, import_campaign

#: Table, number of the row in it, column, and a value that contradicts other rows or is impossible.
EXCLUDED: list[tuple[str, int, str, object]] = [
    ("campaign", 0, "wall_s", -1.0),
    ("trial", 1, "round", -1),
    ("measurement", 0, "trial", 9999),
    ("measurement", 1, "position", -1),
    ("component", 1, "elapsed_s", -1.0),
    ("component", 2, "operations", -1),
    ("reference", 0, "block", 9999),
    ("recommendation", 0, "confidence", 7.0),
    ("recommendation", 0, "trial", 9999),
]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return a file of a campaign with something in every table."""
    path = tmp_path / "campaign.gz"
    with Store.open(tmp_path / "theirs") as theirs:
        export_campaign(theirs, filled(theirs), path)
    return path


def line_of(file: Path, table: str, number: int) -> int:
    rows = enumerate(lines_of(file)[1:-1], start=2)
    return [line for line, (name, _) in rows if name == table][number]


@pytest.mark.parametrize("at_once", [3, 1000])
def test_a_row_that_is_excluded_is_named_by_its_line(
    store: Store, file: Path, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(archive_module, "_ROWS_AT_ONCE", at_once)
    for table, number, column, value in EXCLUDED:
        line = line_of(file, table, number)

        def change(lines: list[Any]) -> None:
            lines[line - 1][1][column] = value  # noqa: B023 (called in this round)

        wrong = rewritten(file, change)
        with pytest.raises(SpecError) as met:
            import_campaign(store, wrong)
        start = f"{wrong}: line {line}: this row of {table} has an impossible value, or contradicts"
        assert str(met.value).startswith(start)
        assert "\n" not in str(met.value)
        assert store.campaigns() == []
    assert import_campaign(store, file)
    assert problems(store) == []


def test_a_line_that_is_not_json_is_named(store: Store, file: Path) -> None:
    text = gzip.decompress(file.read_bytes()).decode().splitlines()
    text[3] = text[3][:-2]
    file.write_bytes(gzip.compress("\n".join(text).encode()))
    with pytest.raises(
        SpecError, match=r"not an exported campaign, or damaged: line 4, column \d+:"
    ):
        import_campaign(store, file)


@pytest.mark.parametrize("table", ["campaign", "event", "component"])
def test_a_row_may_come_only_once(store: Store, file: Path, table: str) -> None:
    line = line_of(file, table, 0)

    def change(lines: list[Any]) -> None:
        lines.insert(line, lines[line - 1])
        lines[-1]["rows"] += 1

    with pytest.raises(SpecError, match=f"line {line + 1}: "):
        import_campaign(store, rewritten(file, change))
    assert store.campaigns() == []


def test_a_campaign_that_somebody_else_imports_meanwhile_is_a_conflict(
    store: Store, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its rows are excluded as well, but the file is not to blame."""
    campaign = import_campaign(store, file)
    select: Callable[..., Any] = sqlalchemy.select
    looks = []

    def select_none_at_first(*columns: Any) -> Any:
        looks.append(columns)
        query = select(*columns)
        return query.where(tables.campaign.c.id == "") if len(looks) < 3 else query

    monkeypatch.setattr(archive_module, "select", select_none_at_first)
    with pytest.raises(ConflictError, match=f"campaign {campaign} is already in"):
        import_campaign(store, file)
    assert len(looks) == 3
