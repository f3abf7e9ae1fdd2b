"""A whole campaign as one file, for backup and for handing on: format 2, described in
docs/export.md.

It holds the rows of a campaign as they are, whatever kind of database they come from. Who runs it
and what was asked of it stays behind: that is of the moment.
"""

from __future__ import annotations

import gzip
import json
import math
import os
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from itertools import groupby, islice
from pathlib import Path
from typing import Any

from sqlalchemy import (
    JSON,
    Boolean,
    Column,
    Connection,
    Double,
    Enum,
    Integer,
    Table,
    insert,
    select,
)

from tuner.errors import ConflictError, SpecError, StoreError
from tuner.store import tables
from tuner.store.database import json_text
from tuner.store.store import Store
from tuner.store.tables import Seed, UtcTime

#: A change of ``_TABLES`` or of their columns needs a new number, and whatever reads the old ones.
FORMAT = 2
#: What earlier formats did not have: format, table, and the columns with what they say there.
_ADDED = ((2, "block", {"batch": None, "slot": 0}),)
_KIND = "fstune campaign"
#: In an order in which each refers only to those before it.
_TABLES = (
    tables.campaign,
    tables.measured_with,
    tables.prior,
    tables.trial,
    tables.block,
    tables.measurement,
    tables.component,
    tables.reference,
    tables.reference_component,
    tables.event,
    tables.recommendation,
    tables.effect,
)
_BY_NAME = {table.name: table for table in _TABLES}
_ROWS_AT_ONCE = 1000
#: No row of ours comes near it; a file that was made to fill the memory ends here.
_LONGEST_LINE = 64 << 20
_PIECE_BYTES = 1 << 20


def export_campaign(store: Store, campaign: str, file: Path) -> int:
    """Write one moment of a campaign to a new file; returns the number of rows.

    ``campaign``: its identifier. Raises StoreError when the file exists or cannot be written.
    """
    part = file.with_name(f".{file.name}.part")

    def export(connection: Connection) -> int:
        with gzip.open(part, "wt", encoding="utf-8", compresslevel=6) as output:
            header = {"kind": _KIND, "format": FORMAT, "campaign": campaign}
            print(json_text(header), file=output)
            number = 0
            for table in _TABLES:
                query = select(table).where(_key(table) == campaign)
                found = connection.execution_options(yield_per=_ROWS_AT_ONCE).execute(
                    query.order_by(*table.primary_key.columns)
                )
                with found:
                    for row in found:
                        written = {name: _written(value) for name, value in row._mapping.items()}
                        print(json_text([table.name, written]), file=output)
                        number += 1
            print(json_text({"rows": number}), file=output)
        return number

    if file.exists():
        raise StoreError(f"{file} exists; name a new file")
    try:
        number = store._database.read(export)
        os.link(part, file)  # unlike a rename, never over another file
    except FileExistsError:
        raise StoreError(f"{file} exists; name a new file") from None
    except OSError as problem:
        raise StoreError(f"{file} cannot be written: {problem.strerror}") from problem
    finally:
        part.unlink(missing_ok=True)
    return number


def import_campaign(store: Store, file: Path) -> str:
    """Store the campaign of a file, all of it or nothing; returns its identifier.

    Raises SpecError when the file is not such a file, or is damaged, and ConflictError when there
    is a campaign of that identifier.
    """

    _check_whole(file)

    def add(connection: Connection) -> str:
        lines = _lines(file)
        campaign, form = _header(file, lines)
        known = select(tables.campaign.c.id).where(tables.campaign.c.id == campaign)
        if connection.execute(known).first() is not None:
            raise ConflictError(f"campaign {campaign} is already in {store.where}")
        for table, rows in groupby(_checked(file, lines, campaign, form), lambda each: each[0]):
            while some := [row for _, row in islice(rows, _ROWS_AT_ONCE)]:
                connection.execute(insert(table), some)
        return campaign

    return store._database.write(add)


def _key(table: Table) -> Column[str]:
    return table.c.id if table is tables.campaign else table.c.campaign


def _written(value: object) -> object:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # JSON has no such number
    return value


def _check_whole(file: Path) -> None:
    """Whether a file is as it was written: its checksum comes last, after all that would be read
    wrongly. Raises SpecError.
    """
    with _refused(file), gzip.open(file) as source:
        while source.read(_PIECE_BYTES):
            pass


def _lines(file: Path) -> Iterator[tuple[int, Any]]:
    """The lines of a file, each with its number. Raises SpecError."""
    with _refused(file), gzip.open(file, "rt", encoding="utf-8") as source:
        number = 0
        while text := source.readline(_LONGEST_LINE):
            number += 1
            yield number, json.loads(text)


@contextmanager
def _refused(file: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, EOFError, ValueError, RecursionError, zlib.error) as problem:
        said = problem.strerror if isinstance(problem, OSError) and problem.strerror else problem
        raise SpecError(f"{file}: not an exported campaign, or damaged: {said}") from problem


def _header(file: Path, lines: Iterator[tuple[int, Any]]) -> tuple[str, int]:
    """What the first line says: the identifier of the campaign, and the format."""
    _, header = next(lines, (0, None))
    if not isinstance(header, dict) or header.get("kind") != _KIND:
        raise SpecError(f"{file}: not an exported campaign")
    form = header.get("format")
    if not isinstance(form, int) or not 1 <= form <= FORMAT:
        raise SpecError(
            f"{file}: of format {form}, this fstune reads formats 1 to {FORMAT}; use a newer one"
        )
    campaign = header.get("campaign")
    if not isinstance(campaign, str):
        raise SpecError(f"{file}: names no campaign")
    return campaign, form


def _checked(
    file: Path, lines: Iterator[tuple[int, Any]], campaign: str, form: int
) -> Iterator[tuple[Table, dict[str, object]]]:
    """The rows of a file, each for its table. Raises SpecError at one that is none."""
    for rows, (number, line) in enumerate(lines):
        where = f"{file}: line {number}"
        if line == {"rows": rows}:
            if next(lines, None) is not None:
                raise SpecError(f"{where}: more follows the end")
            return
        if not (isinstance(line, list) and len(line) == 2 and line[0] in _BY_NAME):
            raise SpecError(f"{where}: not a row of a campaign")
        table, row = _BY_NAME[line[0]], line[1]
        for added, where_added, columns in _ADDED:
            if form < added and table.name == where_added and isinstance(row, dict):
                row = {**columns, **row}
        if not isinstance(row, dict) or row.keys() != set(table.c.keys()):
            raise SpecError(f"{where}: not the columns of {table.name}")
        if row[_key(table).name] != campaign:
            raise SpecError(f"{where}: a row of another campaign")
        yield table, _read(where, table, row)
    raise SpecError(f"{file}: its end is missing")


def _read(where: str, table: Table, row: Mapping[str, Any]) -> dict[str, object]:
    found = {}
    for column in table.columns:
        try:
            found[column.name] = _value(column, row[column.name])
        except (TypeError, ValueError, OverflowError, AttributeError):
            raise SpecError(f"{where}: {table.name}.{column.name} is none") from None
    return found


def _value(column: Column[Any], raw: Any) -> object:
    """What a column takes; TypeError or ValueError when it does not take this."""
    kind = column.type
    if raw is None:
        if not column.nullable:
            raise TypeError
        return None
    if isinstance(kind, UtcTime):
        return datetime.fromisoformat(raw)
    if isinstance(kind, Enum):
        assert kind.enum_class is not None
        return kind.enum_class(raw)
    if isinstance(kind, Double):
        if isinstance(raw, bool):
            raise TypeError
        return float(raw)
    if isinstance(kind, tables.Shaped):
        kind.shape(raw)  # what cannot be read back must not be stored
        return raw
    if isinstance(kind, JSON):
        return raw
    number = isinstance(kind, (Integer, Seed))
    if type(raw) is not (bool if isinstance(kind, Boolean) else int if number else str):
        raise TypeError
    return raw
