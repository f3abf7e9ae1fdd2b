"""The page for authors of kinds of services shows what the tests run."""

from __future__ import annotations

import re
from pathlib import Path

from tests.docs.pages import code_blocks

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "service-kinds.md").read_text()


def test_its_examples_are_those_that_are_tested() -> None:
    files = [
        *(ROOT / "tests" / "toy").glob("*.py"),
        ROOT / "tests" / "unit" / "services" / "test_kinds.py",
    ]
    code = "\n".join(file.read_text() for file in files)
    pieces = [p for block in code_blocks(PAGE, "python") for p in block.split("\n\n\n")]
    assert len(pieces) == 5
    assert [piece for piece in pieces if piece.rstrip("\n") not in code] == []
    (entry_points,) = code_blocks(PAGE, "ini")
    (file,) = (ROOT / "tests" / "toy" / "installed").glob("*/entry_points.txt")
    assert entry_points.strip() == file.read_text().strip()


def test_the_files_that_it_names_exist() -> None:
    names = re.findall(r"`((?:tuner|tests|search_spaces)/[\w/.-]+)`", PAGE)
    assert len(names) > 15
    assert [name for name in names if not (ROOT / name).exists()] == []
