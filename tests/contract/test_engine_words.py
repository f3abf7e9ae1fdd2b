"""The engine refers to no kind of service: not by imports (see pyproject.toml), nor by words."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

#: Programs, counters and paths of OpenAFS.
WORDS = re.compile(
    r"\b(?:afsd|dafileserver|davolserver|bosserver|volserver|BosConfig|rxdebug|cmdebug|xstat\w*)\b"
    r"|\bbos |\bcm\.\w|/afs\b|\b[dv]cache\w*|\bparm\b|\bfstune cell\b|--start hosts\b"
)
#: Where they belong, or are used as an example.
ALLOWED = (
    "tuner/services/openafs/",
    "tuner/formats/",  # files and commands of OpenAFS's administrators
    "tuner/cli/cell.py",  # `fstune cell`: private OpenAFS cells
    "tuner/cli/vm.py",  # guests with OpenAFS's client, on private cells
    "tuner/hosts/node.py",  # nodes of private cells
    "tuner/hosts/nodes.py",
)


def _engine(root: Path) -> list[Path]:
    paths = [path for room in ("api", "tuner") for path in (root / room).rglob("*")]
    return [path for path in paths if path.suffix in (".py", ".html", ".js", ".sh")]


def test_no_word_of_openafs_is_outside_its_folder(root: Path) -> None:
    hits = [
        f"{name}:{number}: {line.strip()}"
        for path in _engine(root)
        if not (name := str(path.relative_to(root))).startswith(ALLOWED)
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if WORDS.search(line)
    ]
    assert hits == []


@pytest.mark.parametrize("place", ALLOWED)
def test_every_exception_is_needed(root: Path, place: str) -> None:
    inside = [path for path in _engine(root) if str(path.relative_to(root)).startswith(place)]
    assert any(WORDS.search(path.read_text()) for path in inside)


@pytest.mark.parametrize(
    "line",
    [
        "exec afsd.fuse",
        "run(['bos status'])",
        "'cm.calls'",
        "cd /afs",
        "f'cold.{stage}.dcache_misses'",
        "if words[:1] == ['parm']",
        "'fstune cell down' for a private cell",
        "with --start hosts, the testbed file",
    ],
)
def test_what_counts_as_a_word_of_openafs(line: str) -> None:
    assert WORDS.search(line)
