"""Listings: rows of texts under headings.

On a terminal they fit its width, if need be with the cells of a row one below the other; anywhere
else each row is one unshortened line, so that other programs can read it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from tuner.report.styles import QUIET

#: Cells between two columns of a listing, and the least width of a column whose texts are wrapped.
_GAP, _READABLE = 2, 12


def show(console: Console, page: RenderableType) -> None:
    """Print a page: fitted to a terminal, or with unwrapped lines to a file or pipe."""
    console.print(page, soft_wrap=not console.is_terminal)


def stacked(headings: Sequence[str], rows: Iterable[Sequence[Text]]) -> Table:
    """Return the rows one below the other, each with a line for every cell that is not empty."""
    grid = Table.grid(padding=(0, _GAP, 0, 0))
    grid.add_column(style=QUIET, no_wrap=True)
    grid.add_column(overflow="fold")
    for number, row in enumerate(rows):
        if number:
            grid.add_row()
        for heading, cell in zip(headings, row, strict=True):
            if cell.plain:
                grid.add_row(heading, cell)
    return grid


@dataclass(frozen=True, slots=True)
class Column:
    """A heading and its layout; a `rigid` column is not wrapped on a narrow terminal."""

    heading: str
    rigid: bool = False
    right: bool = False


@dataclass(frozen=True, slots=True)
class Listing:
    """Rows of texts under headings."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Text, ...], ...]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if not options.is_terminal:
            yield Text("\n".join(self._lines()), no_wrap=True, overflow="ignore")
        elif sum(self._least_widths()) + _GAP * len(self.columns) > options.max_width:
            yield stacked([column.heading for column in self.columns], self.rows)
        else:
            yield self._table()

    def _least_widths(self) -> Iterator[int]:
        """The width that each column needs to be readable."""
        for number, column in enumerate(self.columns):
            cells = [column.heading, *(row[number].plain for row in self.rows)]
            widest = max(map(cell_len, cells))
            yield widest if column.rigid else min(widest, _READABLE)

    def _table(self) -> Table:
        table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style=QUIET)
        for column in self.columns:
            table.add_column(
                column.heading,
                justify="right" if column.right else "left",
                no_wrap=column.rigid,
                overflow="ellipsis" if column.rigid else "fold",
            )
        for row in self.rows:
            table.add_row(*row)
        return table

    def _lines(self) -> list[str]:
        rows = [tuple(c.heading for c in self.columns)]
        rows += [tuple(cell.plain or "-" for cell in row) for row in self.rows]
        widths = [max(cell_len(row[i]) for row in rows) for i in range(len(self.columns))]
        return ["  ".join(map(_padded, row, widths)).rstrip() for row in rows]


def _padded(text: str, width: int) -> str:
    return text + " " * (width - cell_len(text))
