"""What a study writes: rows as a CSV file, and tables between the marks of its README."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any


def write_csv(rows: Sequence[Any], path: Path, floats: str = ".6f") -> None:
    """Write dataclasses of one kind, one line for each. ``floats``: the format of floats."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(field.name for field in fields(rows[0]))
        for row in rows:
            values = asdict(row).values()
            writer.writerow(format(v, floats) if isinstance(v, float) else v for v in values)


def with_table(text: str, table: str, name: str = "results") -> str:
    """Return the text of a README with ``table`` between its two marks of this name."""
    mark = f"<!-- {name}: written by the study -->"
    before, _, after = text.split(mark)
    return f"{before}{mark}\n\n{table}\n\n{mark}{after}"


def put_table(readme: Path, table: str, name: str = "results") -> None:
    """Write ``table`` between the two marks of this name in a README."""
    text = readme.read_text(encoding="utf-8")
    readme.write_text(with_table(text, table, name), encoding="utf-8")
