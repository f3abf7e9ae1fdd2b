"""Names are nouns or verbs: no bare past participle stands for the thing that it describes."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
#: Not allowed as the whole name of a variable, parameter, attribute, function, class or module: use
#: a noun for what it holds (``rows``, ``message``). Participles together with a noun are fine.
BANNED = frozenset(
    [
        "asked",
        "begun",
        "brought",
        "chosen",
        "drawn",
        "ended",
        "fitted",
        "found",
        "given",
        "gone",
        "heard",
        "held",
        "judged",
        "kept",
        "known",
        "looked",
        "made",
        "meant",
        "named",
        "needed",
        "observed",
        "opened",
        "said",
        "seen",
        "sent",
        "shown",
        "spent",
        "stored",
        "told",
        "tried",
        "understood",
        "wanted",
        "written",
    ]
)
#: The folders and files of the engine that have none of them.
CLEAN = (
    *("apply", "campaign", "cli", "formats", "hosts", "judge", "measure", "page", "propose"),
    *("records", "remote", "report", "simulate", "store", "work", "applications.py", "compose.py"),
    *("documents.py", "errors.py", "identifiers.py", "interruption.py", "model.py", "new_file.py"),
    *("queue_records.py", "settings.py", "states.py", "text.py", "time_use.py", "tokens.py"),
)
#: Names that others see or use, and flags that say whether something is shown.
ALLOWED = {
    ("cli/interview.py", "known"),  # a keyword of every kind of service's questions
    ("documents.py", "meant"),  # used by the kinds of services
    ("hosts/connector.py", "understood"),  # used by the kinds of services
    ("hosts/exchange.py", "ended"),  # a field of what hosts send
    ("judge/pilot.py", "shown"),
    ("judge/testbeds.py", "shown"),
    ("page/document.py", "ended"),  # a field of the report
    ("propose/encoding.py", "found"),  # as a part of a target has it
    ("propose/samplers/model.py", "found"),  # a keyword of programs, see docs/programs.md
    ("records/status.py", "said"),  # a field over HTTP
}


def names(source: str) -> Iterator[str]:
    """Yield every name that a module binds."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name
            case ast.ClassDef(name=name) | ast.arg(arg=name):
                yield name
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)):
                yield name
            case ast.alias(asname=str(name)):
                yield name


def banned(source: str) -> set[str]:
    return {word for name in names(source) if (word := name.strip("_").lower()) in BANNED}


def files(place: Path) -> list[Path]:
    return [place] if place.is_file() else sorted(place.rglob("*.py"))


@pytest.mark.parametrize("place", CLEAN)
def test_no_name_is_a_participle(place: str) -> None:
    tuner = ROOT / "tuner"
    every = files(tuner / place)
    assert every
    wrong = {
        (str(file.relative_to(tuner)), word)
        for file in every
        for word in banned(file.read_text()) | (BANNED & {file.stem})
    }
    assert wrong - ALLOWED == set()


def test_every_exception_is_needed() -> None:
    tuner = ROOT / "tuner"
    unused = {
        (file, word) for file, word in ALLOWED if word not in banned((tuner / file).read_text())
    }
    assert unused == set()


def test_every_folder_is_checked_or_exempt() -> None:
    places = {
        place.name
        for place in (ROOT / "tuner").iterdir()
        if (place.suffix == ".py" or place.is_dir()) and not place.name.startswith("__")
    }
    assert places - {*CLEAN, "services"} == set()


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("found = 1", {"found"}),
        ("def told(): ...", {"told"}),
        ("def f(said): ...", {"said"}),
        ("class Held: ...", {"held"}),
        ("self._kept = {}", {"kept"}),
        ("x = [seen for seen in y]", {"seen"}),
        ("if (known := f()): ...", {"known"}),
        ("x.found(1, known=2)", set()),
        ("known_hosts = as_found = is_gone = 1", set()),
    ],
)
def test_what_counts_as_a_name(source: str, words: set[str]) -> None:
    assert banned(source) == words
