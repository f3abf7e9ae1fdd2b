"""Export of a whole campaign to one file, and its import: format 5 of docs/export.md.

The file has the rows of a campaign as they are, independent of the kind of database. Leases and
pending requests are left out: they only matter at the moment.
"""

from __future__ import annotations

import gzip
import io
import json
import math
import pickle
import tempfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from itertools import groupby, islice
from pathlib import Path
from typing import IO, Any, BinaryIO, Final

from sqlalchemy import Column, Connection, Table, insert, select
from sqlalchemy.exc import IntegrityError

from tuner.errors import ConflictError, SpecError, StoreError
from tuner.identifiers import campaign_id
from tuner.new_file import new_file
from tuner.states import BlockState
from tuner.store import queries, tables
from tuner.store.database import json_text
from tuner.store.imported_rows import value, wrong_data
from tuner.store.store import Store

Row = dict[str, object]
#: Raises SpecError for a wrong row, given its place in the file, the name of its table, and itself.
RowCheck = Callable[[str, str, Row], None]

#: A change of ``TABLES`` or of their columns needs a new number, and code that reads the old ones.
FORMAT = 5
#: Columns added since earlier formats: format, table, and the defaults of the columns.
_ADDED: Final[tuple[tuple[int, str, Row], ...]] = (
    (2, "block", {"batch": None, "slot": 0}),
    (5, "recommendation", {"settings": {}}),
)
#: Columns that earlier formats call otherwise: format, table, their name before and now.
_RENAMED = ((4, "trial", "race", "round"), (4, "block", "race", "round"))
_KIND = "fstune campaign"
#: Ordered so that each table refers only to those before it.
TABLES = (
    tables.campaign,
    tables.measured_with,
    tables.prior,
    tables.trial,
    tables.block,
    tables.measurement,
    tables.covariate,
    tables.component,
    tables.reference,
    tables.reference_component,
    tables.event,
    tables.recommendation,
    tables.effect,
)
_BY_NAME = {table.name: table for table in TABLES}
#: Numbers without gaps: the first one by table. The next one of a campaign follows the last.
_FIRST_NUMBERS = {"trial": 0, "event": 1}
#: A block that no process measures here must not occupy its testbed.
_CUT_OFF = {"state": BlockState.VOID, "reason": "cut off when it was exported", "duration_s": 0.0}
_ROWS_AT_ONCE = 1000
#: Each line from this one on is a row.
_FIRST_ROW = 2
#: No real row or campaign comes near these sizes; they stop a file crafted to fill memory or disk.
_LONGEST_LINE, _LARGEST_BYTES = 8 << 20, 4 << 30
_PIECE_BYTES = 1 << 20


def export_campaign(store: Store, campaign: str, file: Path) -> int:
    """Write a consistent snapshot of a campaign to a new file; return the number of rows.

    ``campaign``: its identifier. Raises ConflictError when the file exists, StoreError when it
    cannot be written, NotFoundError when there is no such campaign.
    """
    with new_file(file) as output:
        return write_campaign(store, campaign, output)


def write_campaign(store: Store, campaign: str, output: BinaryIO) -> int:
    """Write a consistent snapshot of a campaign to an open file, replacing its contents; return the
    number of rows. ``campaign``: its identifier. OSError: it cannot be written. NotFoundError:
    there is no such campaign.
    """

    def write(connection: Connection) -> int:
        # It may have been deleted since the caller looked it up.
        queries.campaign_row(connection, campaign)
        # The transaction is run again from the start after a lost connection.
        output.seek(0)
        output.truncate()
        with (
            gzip.GzipFile("", "wb", 6, output) as packed,
            io.TextIOWrapper(packed, encoding="utf-8") as lines,
        ):
            header = {"kind": _KIND, "format": FORMAT, "campaign": campaign}
            print(json_text(header), file=lines)
            number = 0
            for table in TABLES:
                query = select(table).where(_key(table) == campaign)
                rows = connection.execution_options(yield_per=_ROWS_AT_ONCE).execute(
                    query.order_by(*table.primary_key.columns)
                )
                with rows:
                    for row in rows:
                        columns = {name: _json_value(value) for name, value in row._mapping.items()}
                        print(json_text([table.name, columns]), file=lines)
                        number += 1
            print(json_text({"rows": number}), file=lines)
        return number

    return store._database.read(write)


def import_campaign(store: Store, file: Path, check: RowCheck | None = None) -> str:
    """Store the campaign of a file, all of it or nothing; return its identifier.

    ``check``: for what the store cannot know of the rows, which it is given in their order. Raises
    SpecError when the file is not an exported campaign, is damaged, or has a wrong row,
    ConflictError when a campaign with that identifier exists, and StoreError when there is no space
    for the rows.
    """
    _check_whole(file)
    lines = _lines(file)
    campaign, form = _header(file, lines)

    def refuse_existing(connection: Connection) -> None:
        same = select(tables.campaign.c.id).where(tables.campaign.c.id == campaign)
        if connection.execute(same).first() is not None:
            raise ConflictError(f"campaign {campaign} is already in {store.where}")

    # Reading takes much longer than writing, and campaigns that run must not wait for it.
    store._database.read(refuse_existing)
    with _collected(_checked(file, lines, campaign, form, check)) as rows:

        def add(connection: Connection) -> None:
            refuse_existing(connection)
            # The transaction is run again from the start after a lost connection.
            line = _FIRST_ROW
            for name, some in _loaded(rows):
                _insert(connection, _BY_NAME[name], some, file, line)
                line += len(some)

        try:
            store._database.write(add)
        except SpecError:
            # Perhaps only because somebody else has imported it in the meantime.
            store._database.read(refuse_existing)
            raise
    return campaign


def _insert(
    connection: Connection, table: Table, rows: Sequence[Row], file: Path, line: int
) -> None:
    """Insert rows of a file, the first of which is in this line. Raises SpecError for a row that
    the constraints of the tables exclude.
    """
    try:
        with connection.begin_nested():
            connection.execute(insert(table), rows)
    except IntegrityError:
        for number, row in enumerate(rows, start=line):  # which one is it?
            try:
                connection.execute(insert(table), row)
            except IntegrityError as error:
                raise SpecError(
                    f"{file}: line {number}: this row of {table.name} has an impossible value, or"
                    f" contradicts other rows ({str(error.orig).splitlines()[0]})"
                ) from error


def _collected(checked: Iterator[tuple[Table, Row]]) -> IO[bytes]:
    """Write rows to a temporary file that nobody else can open, some at a time; return it. Raises
    StoreError.
    """
    try:
        file = tempfile.TemporaryFile()  # noqa: SIM115 (the caller closes it)
        try:
            for table, rows in groupby(checked, lambda each: each[0]):
                while some := [row for _, row in islice(rows, _ROWS_AT_ONCE)]:
                    pickle.dump((table.name, some), file)
            file.flush()
        except BaseException:
            with suppress(OSError):  # it would write the rest of its buffer
                file.close()
            raise
    except OSError as problem:
        raise StoreError(
            f"{tempfile.gettempdir()}: the rows of a campaign cannot be written:"
            f" {problem.strerror}; set TMPDIR to a directory with more space"
        ) from problem
    return file


def _loaded(file: IO[bytes]) -> Iterator[tuple[str, list[Row]]]:
    file.seek(0)
    with suppress(EOFError):
        while True:
            yield pickle.load(file)


def _key(table: Table) -> Column[str]:
    return table.c.id if table is tables.campaign else table.c.campaign


def _json_value(value: object) -> object:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # JSON has no such number
    return value


def _check_whole(file: Path) -> None:
    """Read a file to its end, so that gzip verifies its checksum before any row is used. Raises
    SpecError.
    """
    size = 0
    with _translating_errors(file), gzip.open(file) as source:
        while piece := source.read(_PIECE_BYTES):
            size += len(piece)
            if size > _LARGEST_BYTES:
                raise SpecError(f"{file}: too large for a campaign")


def _lines(file: Path) -> Iterator[tuple[int, Any]]:
    """Yield the number and the parsed JSON of each line. Raises SpecError."""
    with _translating_errors(file), gzip.open(file, "rt", encoding="utf-8") as source:
        number = 0
        while text := source.readline(_LONGEST_LINE):
            number += 1
            try:
                line = json.loads(text)
            except json.JSONDecodeError as problem:
                # Its own number of the line is that within the text.
                raise ValueError(f"line {number}, column {problem.colno}: {problem.msg}") from None
            except (ValueError, RecursionError) as problem:
                raise ValueError(f"line {number}: {problem}") from None
            yield number, line


@contextmanager
def _translating_errors(file: Path) -> Iterator[None]:
    try:
        yield
    except gzip.BadGzipFile as problem:
        raise SpecError(f"{file}: not an exported campaign, or damaged") from problem
    except OSError as problem:
        raise SpecError(f"{file}: cannot be read: {problem.strerror}") from problem
    except (EOFError, ValueError, RecursionError, zlib.error) as problem:
        raise SpecError(f"{file}: not an exported campaign, or damaged: {problem}") from problem


def _header(file: Path, lines: Iterator[tuple[int, Any]]) -> tuple[str, int]:
    """Return the identifier of the campaign and the format, as the first line has them."""
    _, header = next(lines, (0, None))
    if not isinstance(header, dict) or header.get("kind") != _KIND:
        raise SpecError(f"{file}: not an exported campaign")
    form = header.get("format")
    if not isinstance(form, int) or not 1 <= form <= FORMAT:
        raise SpecError(
            f"{file}: has format {form}, this fstune reads 1 to {FORMAT}; use a newer fstune"
        )
    campaign = header.get("campaign")
    if not isinstance(campaign, str):
        raise SpecError(f"{file}: does not name a campaign")
    try:
        return campaign_id(campaign), form
    except SpecError as problem:
        raise SpecError(f"{file}: {problem}") from None


def _checked(
    file: Path,
    lines: Iterator[tuple[int, Any]],
    campaign: str,
    form: int,
    check: RowCheck | None,
) -> Iterator[tuple[Table, Row]]:
    """Yield the rows of a file, each with its table. Raises SpecError at an invalid line."""
    counts = dict.fromkeys(_FIRST_NUMBERS, 0)
    for rows, (number, line) in enumerate(lines):
        where = f"{file}: line {number}"
        if not rows and not (isinstance(line, list) and line[:1] == [tables.campaign.name]):
            raise SpecError(f"{where}: the campaign itself is missing")
        if line == {"rows": rows}:
            if next(lines, None) is not None:
                raise SpecError(f"{where}: data after the end")
            return
        if not (isinstance(line, list) and len(line) == 2 and line[0] in _BY_NAME):
            raise SpecError(f"{where}: not a row of a campaign")
        table, row = _BY_NAME[line[0]], _in_this_format(form, *line)
        if not isinstance(row, dict) or row.keys() != set(table.c.keys()):
            raise SpecError(f"{where}: the columns are not those of {table.name}")
        if row[_key(table).name] != campaign:
            raise SpecError(f"{where}: a row of another campaign")
        values = _read(where, table, row)
        _check_number(where, table, values, counts)
        if table is tables.event:
            _check_event(where, values, counts["trial"])
        if check is not None:
            check(where, table.name, values)
        if table is tables.block and values["state"] is BlockState.RUNNING:
            values |= _CUT_OFF
        yield table, values
    raise SpecError(f"{file}: the end is missing")


def _in_this_format(form: int, table: str, row: Any) -> Any:
    """Return the row of a table in an earlier format as one of this format; anything but a row, or
    a row with other columns, stays as it is.
    """
    if not isinstance(row, dict):
        return row
    for added, name, columns in _ADDED:
        if form < added and name == table:
            row = {**columns, **row}
    for renamed, name, before, now in _RENAMED:
        if form < renamed and name == table:
            row = {now if column == before else column: value for column, value in row.items()}
    return row


def _check_number(
    where: str, table: Table, row: Mapping[str, object], counts: dict[str, int]
) -> None:
    """Check and count a row whose number follows from those before it. Raises SpecError."""
    first = _FIRST_NUMBERS.get(table.name)
    if first is None:
        return
    if row["number"] != first + counts[table.name]:
        raise SpecError(f"{where}: the {table.name}s are not numbered from {first} without gaps")
    counts[table.name] += 1


def _check_event(where: str, row: Mapping[str, Any], trials: int) -> None:
    """Raise SpecError for an event with data that its readers cannot use. ``trials``: how many
    there are.
    """
    kind = row["kind"]
    if (name := wrong_data(kind, row["data"], trials)) is not None:
        raise SpecError(f"{where}: the data of event {kind!r} have no valid {name!r}")


def _read(where: str, table: Table, row: Mapping[str, Any]) -> dict[str, object]:
    columns = {}
    for column in table.columns:
        try:
            columns[column.name] = value(column, row[column.name])
        except (SpecError, TypeError, ValueError, OverflowError, RecursionError):
            raise SpecError(f"{where}: {table.name}.{column.name} has no valid value") from None
    return columns
