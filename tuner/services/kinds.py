"""The registry of kinds of services: those of fstune, and those of other installed packages.

A package provides a kind as an entry point in the group ``fstune.services`` that refers to a
``Kind``.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from tuner.errors import SpecError
from tuner.services.kind import Kind, Offer, Program, TestbedType
from tuner.services.openafs.kind import OPENAFS
from tuner.services.simulated.kind import SIMULATED
from tuner.services.start import Start

_GROUP = "fstune.services"
_KEY = re.compile("[a-z][a-z_]*")
#: Other attributes of the testbed section, which keys must not shadow.
_PROPERTIES = ("key", "kind", "named", "of", "section", "type")
_WORD = re.compile("[a-z]+(-[a-z]+)*")
#: The options of 'fstune init' that belong to no start.
_OPTIONS = frozenset(
    [
        "allow-risk",
        "file",
        "force",
        "help",
        "name",
        "presets",
        "start",
        "state-dir",
        "time",
        "workload",
        "yes",
    ]
)
_log = logging.getLogger("fstune.services")


@cache
def kinds() -> tuple[Kind, ...]:
    """All kinds, fstune's own first.

    A kind of another package that cannot be used is skipped with a warning, so that fstune keeps
    working without it.
    """
    all_kinds = [OPENAFS, SIMULATED]
    for entry in entry_points(group=_GROUP):
        try:
            kind = _check(entry.load(), all_kinds)
        except Exception as problem:  # another package may raise anything
            _log.warning("the kind of service %r cannot be used: %s", entry.name, problem)
        else:
            all_kinds.append(kind)
    return tuple(all_kinds)


def _check(kind: object, others: Collection[Kind]) -> Kind:
    """Return the kind if it is valid. Raises TypeError or ValueError otherwise."""
    if not isinstance(kind, Kind):
        raise TypeError(f"its entry point names {type(kind).__name__}, not a Kind")
    keys = {*_PROPERTIES, *(each.key for one in others for each in one.types)}
    for each in kind.types:
        if not _KEY.fullmatch(each.key) or each.key in keys:
            raise ValueError(f"its key {each.key!r} is not a word, or is already used")
        keys.add(each.key)
    if not all(isinstance(getattr(form, "name", None), str) for form in kind.formats):
        raise TypeError("one of its formats has no name")
    names = {start.name for one in others for start in one.starts}
    questions = {each.name for one in others for start in one.starts for each in start.questions}
    for start in kind.starts:
        if not _WORD.fullmatch(start.name) or start.name in names:
            raise ValueError(f"its start {start.name!r} is not a word, or is already used")
        names.add(start.name)
        for question in start.questions:
            if not _WORD.fullmatch(question.name) or question.name in _OPTIONS | questions:
                raise ValueError(
                    f"its question {question.name!r} is not a word, or is already used"
                )
    return kind


@cache
def types_of_testbeds() -> dict[str, tuple[Kind, TestbedType[Any]]]:
    """Every type of testbed, by its key, with its kind."""
    return {each.key: (kind, each) for kind in kinds() for each in kind.types}


def part_order() -> tuple[str, ...]:
    """The parts of all kinds, those of each kind in start-up order."""
    return tuple(dict.fromkeys(part for kind in kinds() for part in kind.parts or ()))


def starts() -> dict[str, Start]:
    """The starts of all kinds by name, in the order of each kind, fstune's own first."""
    return {start.name: start for kind in kinds() for start in kind.starts}


def offers() -> dict[str, str]:
    """Titles of the testbeds that the API server can offer by their key alone, by key."""
    return {key: each.title for key, (_, each) in types_of_testbeds().items() if each.title}


def offer(file: Path) -> Offer | None:
    """Describe a testbed file; None if no kind can use the file."""
    for _, each in types_of_testbeds().values():
        try:
            candidate = each.offer(file)
        except SpecError:
            continue
        if candidate is not None:
            return candidate
    return None


def type_of_file(file: Path) -> TestbedType[Any]:
    """Return the type of testbed that this file is for.

    If there is none, raises SpecError with the errors from all kinds that have testbed files.
    """
    problems: dict[str, SpecError] = {}
    for key, (_, each) in types_of_testbeds().items():
        try:
            if each.offer(file) is not None:
                return each
        except SpecError as problem:
            problems[key] = problem
    if not problems:
        raise SpecError(f"{file}: no kind of service has testbed files")
    if len({str(problem) for problem in problems.values()}) == 1:
        raise next(iter(problems.values()))
    # Only its author knows which of them the file is meant for.
    raise SpecError("; ".join(f"as a file for {key}: {why}" for key, why in problems.items()))


def ways_to_restore() -> str:
    """What restores testbeds without a campaign, as a phrase."""
    types = [each for _, each in types_of_testbeds().values()]
    return " and ".join(
        dict.fromkeys(each.restore_command for each in types if each.restore_command)
    )


@cache
def programs() -> dict[str, Program]:
    """How to apply settings to each program of all kinds, by its name in search spaces."""
    return {name: program for kind in kinds() for name, program in kind.programs.items()}
