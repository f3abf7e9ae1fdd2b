"""The committed results of studies, of that of error rates unless another one is named."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

Row = TypeVar("Row")

STUDY = Path("bench", "error_rates")
_OF_TEXT: dict[type, Callable[[str], Any]] = {
    str: str,
    int: int,
    float: float,
    bool: lambda text: text == "True",
}


def committed(root: Path, name: str, study: Path = STUDY) -> list[dict[str, str]]:
    """Read a file of results, a mapping for each row."""
    with (root / study / name).open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def rows_of(kind: type[Row], root: Path, name: str, study: Path = STUDY) -> list[Row]:
    """Read a file of results whose columns are the fields of a dataclass."""
    types = get_type_hints(kind)
    return [
        kind(**{field: _OF_TEXT[types[field]](text) for field, text in row.items()})
        for row in committed(root, name, study)
    ]
