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
#: The folders with Python code.
PLACES = ("api", "bench", "deploy", "search_spaces", "tests", "tuner", "workloads")
#: Names that others see or use, and flags that say whether something is shown.
ALLOWED = {
    ("bench/campaigns/study.py", "found"),  # a column of its results, as in the next ones
    ("bench/error_rates/adjusted.py", "kept"),
    ("bench/error_rates/adjusted.py", "shown"),
    ("bench/error_rates/floors.py", "kept"),
    ("bench/error_rates/guards.py", "seen"),
    ("bench/error_rates/study.py", "kept"),
    ("bench/error_rates/study.py", "seen"),
    ("bench/noise/robust.py", "shown"),
    ("deploy/vm/recipe.py", "found"),  # part of the identity of images
    ("search_spaces/model.py", "held"),  # a value in the files of search spaces
    ("tuner/cli/interview.py", "known"),  # a keyword of every kind of service's questions
    ("tuner/documents.py", "meant"),  # used by the kinds of services
    ("tuner/hosts/connector.py", "understood"),  # used by the kinds of services
    ("tuner/hosts/exchange.py", "ended"),  # a field of what hosts send
    ("tuner/judge/pilot.py", "shown"),
    ("tuner/judge/testbeds.py", "shown"),
    ("tuner/page/document.py", "ended"),  # a field of the report
    ("tuner/services/lasting.py", "kept"),  # a state that the kinds of services return
    ("tuner/services/simulated/document.py", "found"),  # a key of campaign files
    ("tuner/services/simulated/keeper.py", "kept"),  # a key of its file
    ("tuner/services/start.py", "known"),  # used by the kinds of services
    ("tuner/services/start.py", "needed"),  # used by the kinds of services
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


@pytest.mark.parametrize("place", PLACES)
def test_no_name_is_a_participle(place: str) -> None:
    files = sorted((ROOT / place).rglob("*.py"))
    assert files
    wrong = {
        (str(file.relative_to(ROOT)), word)
        for file in files
        for word in banned(file.read_text()) | (BANNED & {file.stem})
    }
    assert wrong - ALLOWED == set()


def test_every_exception_is_needed() -> None:
    unused = {
        (file, word) for file, word in ALLOWED if word not in banned((ROOT / file).read_text())
    }
    assert unused == set()


def test_every_folder_is_checked(repository_files: tuple[Path, ...]) -> None:
    places = {file.parts[0] for file in repository_files if file.suffix == ".py"}
    assert places - {*PLACES} == set()


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
