"""Banned wording does not come back, and the glossary has each word once."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RULES = [
    line.split(" -> ")
    for line in (ROOT / "tests/data/wording/banned.txt").read_text().splitlines()
    if line and not line.startswith("#")
]
#: Packages with text that people read: messages, help and docstrings.
PACKAGES = ("api", "deploy", "search_spaces", "tuner", "workloads")
KINDS = {".py", ".yaml", ".md", ".html", ".sh"}


@pytest.fixture(scope="module")
def texts(repository_files: tuple[Path, ...]) -> dict[Path, str]:
    read = [
        name
        for name in repository_files
        if name.suffix in KINDS
        and (name.parts[0] in (*PACKAGES, "docs", "examples") or len(name.parts) == 1)
    ]
    # A phrase may continue on the next line.
    return {name: " ".join((ROOT / name).read_text().split()) for name in read}


@pytest.mark.parametrize(("banned", "better"), RULES, ids=[rule[0] for rule in RULES])
def test_banned_wording_is_not_used(banned: str, better: str, texts: dict[Path, str]) -> None:
    assert len(texts) > 200
    occurrences = {
        str(name): [text[max(0, hit.start() - 30) : hit.end() + 30] for hit in hits]
        for name, text in texts.items()
        if (hits := list(re.finditer(banned, text, re.IGNORECASE)))
    }
    assert occurrences == {}, f"write: {better}"


@pytest.mark.parametrize(
    "text",
    ["5.2 % slower", "it is -5.2% faster", "'x' is no number", "heard of 5 s ago", "whence it is"],
)
def test_the_rules_match_what_they_are_for(text: str) -> None:
    assert any(re.search(banned, text, re.IGNORECASE) for banned, _ in RULES)


def test_the_glossary_has_each_word_once() -> None:
    rows = re.findall(r"^\| ([a-z][\w -]*) \| \S", (ROOT / "docs/glossary.md").read_text(), re.M)
    assert len(rows) > 30
    assert [word for word, times in Counter(rows).items() if times > 1] == []
