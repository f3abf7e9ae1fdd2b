"""What several commands print: sentences and lists that fit the terminal, and ``--json``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer
from rich.text import Text

from tuner.cli.say import plain
from tuner.report.listing import Column, Listing, output, show
from tuner.report.styles import literal

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def say_wrapped(text: str) -> None:
    """Print a text as ``say`` does, broken between words on a terminal."""
    show(output(), Text(plain(text)))


def list_rows(columns: tuple[Column, ...], rows: Sequence[Sequence[str]]) -> None:
    """Print a list, a line for each row."""
    show(output(), Listing(columns, tuple(tuple(map(literal, row)) for row in rows)))
