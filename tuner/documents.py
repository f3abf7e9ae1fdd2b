"""YAML files from users: read, checked whole, and one line about the first mistake.

Owns how a file becomes a checked document and what is said when it does not: which file, which key,
and what would be right. What a file means is its reader's matter.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, TypeVar, get_args

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from search_spaces.reading import document as document_of
from search_spaces.reading import text_of
from tuner.errors import SpecError

_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(s|m|h|d)")
_NAME = re.compile(r"[\w .-]{1,80}")
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def _duration_s(value: object) -> object:
    if isinstance(value, str):
        match = _DURATION.fullmatch(value.strip())
        if match is None:
            raise ValueError("write a duration such as 90s, 8m, 6h or 3d")
        return float(match[1]) * _SECONDS[match[2]]
    return value


def _fraction(value: object) -> object:
    if isinstance(value, str):
        text = value.strip()
        try:
            return float(text.removesuffix("%")) / (100.0 if text.endswith("%") else 1.0)
        except ValueError:
            raise ValueError("write a share such as 2% or 0.02") from None
    return value


def _name(value: object) -> object:
    if isinstance(value, str) and not _NAME.fullmatch(value):
        raise ValueError("use 1 to 80 letters, digits, spaces, dots, hyphens and underscores")
    return value


Name = Annotated[str, BeforeValidator(_name)]
Duration = Annotated[float, BeforeValidator(_duration_s), Field(gt=0.0)]
Fraction = Annotated[float, BeforeValidator(_fraction), Field(gt=0.0, lt=1.0)]


class Section(BaseModel):
    """A mapping in a file: no key but the declared ones, and nothing changes it once read."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


Document = TypeVar("Document", bound=Section)


def read_document(path: Path, model: type[Document], what: str) -> Document:
    """Read and check a file. ``what``: what it should be, in errors ("a campaign file").

    Raises SpecError: file, key and reason, in one line.
    """
    try:
        document = document_of(text_of(path))
    except FileNotFoundError:
        raise SpecError(f"{path}: there is no such {what.removeprefix('a ')}") from None
    except OSError as problem:
        raise SpecError(f"{path}: cannot be read: {problem.strerror}") from problem
    except UnicodeDecodeError as problem:
        raise SpecError(f"{path}: cannot be read: it is not UTF-8 text") from problem
    except RecursionError:
        raise SpecError(f"{path}: not {what}: it is nested too deeply") from None
    except (yaml.YAMLError, ValueError) as problem:
        raise SpecError(f"{path}: not YAML: {' '.join(str(problem).split())}") from problem
    if not isinstance(document, dict):
        raise SpecError(f"{path}: {what} is a mapping that starts with 'name:'")
    try:
        return model.model_validate(document)
    except ValidationError as problem:
        raise SpecError(f"{path}: {first_problem(problem, model)}") from None


def first_problem(problem: ValidationError, model: type[BaseModel]) -> str:
    """The first mistake that was found: its key, and what would be right."""
    error = problem.errors(include_url=False)[0]
    where = ".".join(str(part) for part in error["loc"]) or "the file"
    if error["type"] == "missing":
        return f"{where}: missing"
    if error["type"] == "extra_forbidden":
        known = _words_beside(error["loc"], model)
        nearest = difflib.get_close_matches(str(error["loc"][-1]), known, n=1)
        hint = f"; did you mean {nearest[0]!r}?" if nearest else f"; known: {', '.join(known)}"
        return f"{where}: unknown key{hint}"
    message = error["msg"].removeprefix("Value error, ")
    return f"{where}: {message[0].lower()}{message[1:]}"


def _words_beside(location: tuple[int | str, ...], model: type[BaseModel]) -> list[str]:
    """The keys that are allowed where an unknown one was found."""
    for part in location[:-1]:
        if isinstance(part, str):  # else the place in a list
            model = next(_models_in(model.model_fields[part].annotation))
    return sorted(model.model_fields)


def _models_in(annotation: object) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from _models_in(inner)
