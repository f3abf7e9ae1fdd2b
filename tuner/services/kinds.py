"""The kinds of services there are: those of fstune, and those of other installed packages.

A package offers a kind as an entry point of the group ``fstune.services`` that names a ``Kind``.
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
from tuner.services.kind import Kind, Offer, Program, Way
from tuner.services.openafs.kind import OPENAFS
from tuner.services.simulated.kind import SIMULATED
from tuner.services.start import Start

_GROUP = "fstune.services"
_KEY = re.compile("[a-z][a-z_]*")
#: Names that the section of a testbed has besides its keys.
_PROPERTIES = ("key", "kind", "named", "of", "section", "way")
_WORD = re.compile("[a-z]+(-[a-z]+)*")
#: Ways to begin that are fstune's own, and the options of 'fstune init' besides those of starts.
_STARTS = frozenset(start.name for kind in (OPENAFS, SIMULATED) for start in kind.starts)
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
    """All kinds, fstune's own first. One of another package that cannot be used is left out, with
    a warning: what fstune does without it must go on.
    """
    all_kinds = [OPENAFS, SIMULATED]
    for entry in entry_points(group=_GROUP):
        try:
            kind = _check(entry.load(), {way.key for one in all_kinds for way in one.ways})
        except Exception as problem:  # whatever another package does
            _log.warning("the kind of service %r cannot be used: %s", entry.name, problem)
        else:
            all_kinds.append(kind)
    return tuple(all_kinds)


def _check(kind: object, keys_in_use: Collection[str]) -> Kind:
    """The kind, if it is one and its keys are free. Raises TypeError or ValueError."""
    if not isinstance(kind, Kind):
        raise TypeError(f"its entry point names no Kind, but {type(kind).__name__}")
    for way in kind.ways:
        if not _KEY.fullmatch(way.key) or way.key in keys_in_use or way.key in _PROPERTIES:
            raise ValueError(f"its key {way.key!r} is no word, or used already")
    for start in kind.starts:
        if not _WORD.fullmatch(start.name) or start.name in _STARTS:
            raise ValueError(f"its start {start.name!r} is no word, or used already")
        for question in start.questions:
            if not _WORD.fullmatch(question.name) or question.name in _OPTIONS:
                raise ValueError(f"its question {question.name!r} is no word, or used already")
    return kind


@cache
def ways() -> dict[str, tuple[Kind, Way[Any]]]:
    """Every way to name a testbed, by its key, with its kind."""
    return {way.key: (kind, way) for kind in kinds() for way in kind.ways}


def part_order() -> tuple[str, ...]:
    """The parts of all kinds, each kind's in the order in which they are brought up."""
    return tuple(dict.fromkeys(part for kind in kinds() for part in kind.parts or ()))


def starts() -> dict[str, Start]:
    """The ways to begin, by name: each kind's in its order, fstune's own first."""
    starts_by_name: dict[str, Start] = {}
    for kind in kinds():
        for start in kind.starts:
            starts_by_name.setdefault(start.name, start)
    return starts_by_name


def offers() -> dict[str, str]:
    """What a service can offer over HTTP by its key alone, with its title."""
    return {key: way.title for key, (_, way) in ways().items() if way.title}


def offer(file: Path) -> Offer | None:
    """What a service can offer of a testbed file; None for a file that no kind can use."""
    for _, way in ways().values():
        try:
            candidate = way.offer(file)
        except SpecError:
            continue
        if candidate is not None:
            return candidate
    return None


def way_of_file(file: Path) -> Way[Any]:
    """The way that uses testbed files such as this one. Raises SpecError, with what is wrong with
    the file for the first kind that has testbed files.
    """
    wrong: SpecError | None = None
    for _, way in ways().values():
        try:
            if way.offer(file) is not None:
                return way
        except SpecError as problem:
            wrong = wrong or problem
    raise wrong or SpecError(f"{file}: no kind of service has testbed files")


@cache
def programs() -> dict[str, Program]:
    """Every program that a kind knows how to apply settings to, by its name in search spaces."""
    return {name: program for kind in kinds() for name, program in kind.programs.items()}
