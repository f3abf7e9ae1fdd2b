"""Listings: rows of texts under headings.

On a terminal they fit its width, if need be with the cells of a row one below the other; anywhere
else each row is one unshortened line, so that other programs can read it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.padding import Padding
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from tuner.report.styles import QUIET

#: Cells between two columns of a listing, and the least width of a column whose texts are wrapped.
_GAP, _READABLE = 2, 12


#: Variables with which users ask for colours where the output is not a terminal.
_FORCE = ("CLICOLOR_FORCE", "FORCE_COLOR")


def output(kind: type[Console] = Console, *, stderr: bool = False) -> Console:
    """Return a console for standard output or standard error.

    Rich takes a wish for colours in a file or pipe as a terminal: it would draw a live view there.
    """
    if (sys.stderr if stderr else sys.stdout).isatty():
        return kind(stderr=stderr)
    forced = any(os.environ.get(name, "") not in ("", "0") for name in _FORCE)
    colours = forced and not os.environ.get("NO_COLOR")
    return kind(stderr=stderr, force_terminal=False, color_system="standard" if colours else None)


def show(console: Console, page: RenderableType) -> None:
    """Print a page: fitted to a terminal, or with unwrapped lines to a file or pipe."""
    if console.is_terminal:
        console.print(page)
    else:
        console.print(_Trimmed(page), soft_wrap=True)


@dataclass(frozen=True, slots=True)
class _Trimmed:
    """Render `inner` without the blanks at the ends of lines with which tables fill their width."""

    inner: RenderableType

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for line in Segment.split_lines(console.render(self.inner, options)):
            while line and not line[-1].text.strip(" "):
                line.pop()
            if line:
                last = line.pop()
                yield from line
                yield last._replace(text=last.text.rstrip(" "))
            yield Segment.line()


@dataclass(frozen=True, slots=True)
class Labelled:
    """Values beside their labels or, where too little room would be left, below them.

    ``lines``: a label and its value each, or None for an empty line.
    """

    lines: tuple[tuple[Text, Text] | None, ...]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lines = [line for line in self.lines if line is not None]
        labels = max((label.cell_len for label, _ in lines), default=0)
        widest = max((value.cell_len for _, value in lines), default=0)
        if options.max_width - labels - _GAP >= min(widest, _READABLE):
            grid = Table.grid(padding=(0, _GAP, 0, 0))
            grid.add_column(no_wrap=True)
            grid.add_column(overflow="fold")
            for line in self.lines:
                grid.add_row(*(line or ()))
            yield grid
            return
        for line in self.lines:
            if line is None:
                yield Text()
            elif line[0].cell_len + _GAP + line[1].cell_len <= options.max_width:
                yield Text(" " * _GAP).join(line)
            else:
                yield line[0]
                yield Padding(line[1], (0, 0, 0, _GAP), expand=False)


def stacked(headings: Sequence[str], rows: Iterable[Sequence[Text]]) -> Labelled:
    """Return the rows one below the other, each with a line for every cell that is not empty."""
    lines: list[tuple[Text, Text] | None] = []
    for row in rows:
        lines += [None] if lines else []
        cells = zip(headings, row, strict=True)
        lines += [(Text(heading, style=QUIET), cell) for heading, cell in cells if cell.plain]
    return Labelled(tuple(lines))


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
            yield from self._lines()
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

    def _lines(self) -> Iterator[Text]:
        rows = [tuple(Text(c.heading, style=QUIET) for c in self.columns)]
        rows += [tuple(cell if cell.plain else Text("-") for cell in row) for row in self.rows]
        widths = [max(row[i].cell_len for row in rows) for i in range(len(self.columns))]
        for row in rows:
            line = Text("  ").join(map(_padded, row, widths))
            line.rstrip()
            line.no_wrap, line.overflow = True, "ignore"
            yield line


def _padded(text: Text, width: int) -> Text:
    padded = text.copy()
    padded.pad_right(width - text.cell_len)
    return padded
