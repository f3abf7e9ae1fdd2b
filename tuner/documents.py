"""YAML files from users: parsing, validation, and a one-line message for all mistakes.

Decides how a file becomes a validated document and what its errors say: which file, which key, and
what would be right. What a file means is up to its reader.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)
from pydantic_core import PydanticCustomError

from search_spaces.reading import document as document_of
from search_spaces.reading import text_of
from tuner.errors import SpecError
from tuner.model import Value

_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(s|m|h|d)\s*")
_DURATION = re.compile(f"(?:{_PART.pattern})+")
#: The longest name of a campaign, in characters.
MOST_NAME = 80
_NAME = re.compile(rf"[\w .-]{{1,{MOST_NAME}}}")
#: A hundred years: longer than any campaign, and short enough that adding it to a date works.
_LONGEST_S = 36_600 * 86_400.0
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def _duration_s(value: object) -> object:
    if isinstance(value, str) and _DURATION.fullmatch(value.strip()):
        parts = _PART.findall(value)
        units = [unit for _, unit in parts]
        if units != sorted(set(units), key="dhms".index):
            raise ValueError("write each unit once, the largest first, such as 1h30m")
        value = sum(float(number) * _SECONDS[unit] for number, unit in parts)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("write a duration such as 90s, 8m, 6h, 1h30m or 3d")
    if value <= 0.0:
        raise ValueError("write a duration of more than 0, such as 90s or 6h")
    if _LONGEST_S < value < math.inf:
        raise ValueError(f"at most {_LONGEST_S / _SECONDS['d']:g}d, which is a hundred years")
    return value


def _fraction(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError("write a share such as 2% or 0.02")
    text = str(value).strip()
    percent = text.endswith("%")
    try:
        share = float(text.removesuffix("%")) / (100.0 if percent else 1.0)
    except ValueError:
        raise ValueError("write a share such as 2% or 0.02") from None
    if not 0.0 < share < 1.0:
        meant_percent = not percent and 1.0 < share < 100.0
        hint = f"; for {share:g} percent write {share:g}%" if meant_percent else ""
        raise ValueError(f"write a share above 0% and below 100%, such as 2% or 0.02{hint}")
    return share


def _fraction_or_auto(value: object) -> object:
    if isinstance(value, str) and value.strip() == "auto":
        return "auto"
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError("write a share such as 2% or 0.02, or auto")
    return _fraction(value)


def checked_name(value: object) -> object:
    """Return a campaign's name. Raises ValueError."""
    if isinstance(value, str) and not _NAME.fullmatch(value):
        raise ValueError(
            f"use 1 to {MOST_NAME} letters, digits, spaces, dots, hyphens and underscores"
        )
    return value


def _not_blank(name: str) -> str:
    if not name.strip():
        raise ValueError("write a name or a path")
    return name


def _value(value: object) -> object:
    if not isinstance(value, int | str):
        raise ValueError("a value is a whole number, true or false, or text")
    return value


ParameterValue = Annotated[Value, BeforeValidator(_value)]
Name = Annotated[str, BeforeValidator(checked_name)]
NameOrPath = Annotated[str, AfterValidator(_not_blank)]
Duration = Annotated[float, BeforeValidator(_duration_s), Field(gt=0.0, le=_LONGEST_S)]
Fraction = Annotated[float, BeforeValidator(_fraction), Field(gt=0.0, lt=1.0)]
FractionOrAuto = Annotated[float | Literal["auto"], BeforeValidator(_fraction_or_auto)]


def duplicates(names: Sequence[str]) -> list[str]:
    """Return the names that occur again, in order."""
    return [name for number, name in enumerate(names) if name in names[:number]]


def meant(name: str, names: Sequence[str]) -> str:
    """Return a hint at the known name that was probably meant, empty without one. A name without
    its part matches the full one.
    """
    whole = [each for each in names if each.endswith(f".{name}")]
    nearest = whole or difflib.get_close_matches(name, names, n=1)
    return f"; did you mean {nearest[0]!r}?" if nearest else ""


#: The error type of ``wrong_key``.
WRONG_KEY = "wrong_key"


def wrong_key(key: str, reason: str) -> PydanticCustomError:
    """Return the error that a validator of a mapping raises for one of its keys."""
    return PydanticCustomError(WRONG_KEY, "{reason}", {"key": key, "reason": reason})


def _alternatives(annotation: object) -> Iterator[object]:
    """Yield the types that a value of a field may have."""
    if get_origin(annotation) in (Annotated, Union, UnionType):
        for each in get_args(annotation):
            yield from _alternatives(each)
    elif isinstance(annotation, type):
        yield annotation


class Section(BaseModel):
    """A mapping in a file: undeclared keys are errors, and it is immutable."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _truth_is_no_number(cls, document: object) -> object:
        """Refuse true and false for a number, which pydantic would take for 1 and 0."""
        for key, value in document.items() if isinstance(document, dict) else ():
            field = cls.model_fields.get(key)
            if isinstance(value, bool) and field is not None:
                # Such a validator says itself what to write.
                if any(isinstance(each, BeforeValidator) for each in field.metadata):
                    continue
                types = set(_alternatives(field.annotation))
                if bool not in types and types & {int, float}:
                    raise wrong_key(key, f"write a number, not {str(value).lower()}")
        return document


Document = TypeVar("Document", bound=Section)


def read_document(
    path: Path,
    model: type[Document],
    what: str,
    besides: Callable[[Mapping[str, object]], Sequence[str]] = lambda document: (),
) -> Document:
    """Read and validate a file. ``what``: what it should be, for errors ("a campaign file");
    ``besides``: returns mistakes of another kind, which are reported together with those found
    here.

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
        raise SpecError(f"{path}: not YAML: {yaml_mistake(problem)}") from problem
    if not isinstance(document, dict):
        raise SpecError(f"{path}: {what} is a mapping that starts with 'name:'")
    try:
        return model.model_validate(document)
    except ValidationError as problem:
        if (sign := _sign_of_another(document, model)) is not None:
            raise SpecError(f"{path}: not {what} but {_SIGNS[sign]}: it has {sign!r}") from None
        message = in_one_line([problems(problem, model), *besides(document)])
        raise SpecError(f"{path}: {message}") from None


#: The key by which each sort of file is recognised where another sort belongs.
_SIGNS = {
    "testbed": "a campaign file",
    "clients": "a testbed file",
    "filesets": "a workload",
    "parameters": "a search space",
    "simulated": "a surface file",
}


def _sign_of_another(document: Mapping[str, object], model: type[BaseModel]) -> str | None:
    return next((key for key in _SIGNS if key in document and key not in model.model_fields), None)


def yaml_mistake(problem: Exception) -> str:
    """Return where and why a text is not valid YAML, in one line."""
    if isinstance(problem, yaml.MarkedYAMLError) and problem.problem_mark is not None:
        mark = problem.problem_mark
        why = ": ".join(part for part in (problem.context, problem.problem) if part)
        return f"line {mark.line + 1}, column {mark.column + 1}: {' '.join(why.split())}"
    return " ".join(str(problem).split())


#: The maximum number of mistakes of one file that are reported; of its keys, each of which may
#: come with all keys that are known there; and the length of one, in characters.
_MOST_MISTAKES = 20
_MOST_KEYS = 8
_LONGEST_MISTAKE = 2000


def in_one_line(sentences: Sequence[str], most: int = _MOST_MISTAKES) -> str:
    """Return the mistakes of a file in one line, of bounded length whatever the file contains: at
    most so many of them, and of a long one its beginning and its end.
    """
    half = _LONGEST_MISTAKE // 2
    parts = [
        each if len(each) <= _LONGEST_MISTAKE else f"{each[:half]}...{each[-half:]}"
        for each in sentences[:most]
    ]
    more = len(sentences) - most
    return "; ".join([*parts, *([f"and {more} more"] if more > 0 else [])])


def problems(problem: ValidationError, model: type[BaseModel]) -> str:
    """Return the mistakes of a file in one line: for each its key, and what would be right."""
    return mistakes(problem.errors(include_url=False), model, "the file")


def mistakes(errors: Sequence[Mapping[str, Any]], model: type[BaseModel], whole: str) -> str:
    """Return pydantic's ``errors`` about a ``model`` in one line: for each its key, and what would
    be right. ``whole``: what all of the document is called.
    """
    suggestions = {
        (*error["loc"][:-1], nearest)
        for error in errors
        if error["type"] == "extra_forbidden" and (nearest := _nearest(error["loc"], model))
    }
    # A misspelt key is not reported as missing as well, nor a list as too short because of mistakes
    # in its items.
    sentences = [
        _problem(error, model, whole)
        for error in errors
        if (error["type"] != "missing" or error["loc"] not in suggestions)
        and not _lacks_wrong_items(error, errors)
    ]
    return in_one_line(sentences, _MOST_KEYS)


def _lacks_wrong_items(error: Mapping[str, Any], errors: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a list is too short only because pydantic does not count items with mistakes."""
    if error["type"] != "too_short" or len(error["input"]) < error["ctx"]["min_length"]:
        return False
    place = error["loc"]
    return any(
        len(each["loc"]) > len(place) and each["loc"][: len(place)] == place for each in errors
    )


#: What to write instead of a value of another type.
_INSTEAD = {
    **dict.fromkeys(("int_parsing", "int_type", "int_from_float"), "a whole number"),
    **dict.fromkeys(("float_parsing", "float_type"), "a number"),
    **dict.fromkeys(("bool_parsing", "bool_type"), "true or false"),
    **dict.fromkeys(("tuple_type", "list_type"), "a list, in square brackets"),
    "string_type": "text, in quotes",
}
#: Wrong values are shown up to this length.
_LONGEST_VALUE = 30


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}..."


def _problem(error: Mapping[str, Any], model: type[BaseModel], whole: str) -> str:
    location: tuple[int | str, ...] = error["loc"]
    kind, value = error["type"], error["input"]
    if kind == WRONG_KEY:
        location = (*location, error["ctx"]["key"])
    where = ".".join(str(part) for part in location) or whole
    if kind == "missing":
        return f"{where}: missing"
    if kind == "extra_forbidden":
        words = _words_beside(location, model)
        nearest = _nearest(location, model)
        hint = f"did you mean {nearest!r}?" if nearest else f"known: {', '.join(words)}"
        return f"{where}: unknown key; {hint}"
    if kind in ("model_type", "dict_type", "model_attributes_type"):
        return f"{where}: {_as_mapping(location, value, model)}"
    if kind in _INSTEAD:
        suffix = f", not {_short(value)}" if isinstance(value, int | float | str) else ""
        return f"{where}: write {_INSTEAD[kind]}{suffix}"
    if kind in ("too_short", "too_long"):
        limit = error["ctx"]["min_length" if kind == "too_short" else "max_length"]
        entries = "entry" if limit == 1 else "entries"
        return f"{where}: write at {'least' if kind == 'too_short' else 'most'} {limit} {entries}"
    message: str = error["msg"].removeprefix("Value error, ")
    if not location and message.partition(":")[0] in model.model_fields:
        return message
    ours = kind in ("value_error", WRONG_KEY)  # their messages contain the value
    ending = f", not {value}" if isinstance(value, int | float) and not ours else ""
    return f"{where}: {message[0].lower()}{message[1:]}{ending}"


def _as_mapping(location: Sequence[int | str], value: object, model: type[BaseModel]) -> str:
    """Return what to write where a mapping belongs, with the given value as its first one if that
    makes sense.
    """
    below = _model_at(location, model)
    if below is None:
        part, dot, name = str(location[-1] if location else "").partition(".")
        if dot and isinstance(value, int | float | str):
            return f"write '{part}: {{{name}: {word_of(value)}}}'"
        return "write a mapping"
    first, field = next(iter(below.model_fields.items()))
    takes_value = next(_models_in(field.annotation), None) is None
    if location and isinstance(value, int | float | str) and takes_value:
        return f"write a mapping, such as '{location[-1]}: {{{first}: {value}}}'"
    return f"write a mapping of: {', '.join(below.model_fields)}"


def _nearest(location: Sequence[int | str], model: type[BaseModel]) -> str | None:
    words = _words_beside(location, model)
    return next(iter(difflib.get_close_matches(str(location[-1]), words, n=1)), None)


def _words_beside(location: Sequence[int | str], model: type[BaseModel]) -> list[str]:
    """Return the keys that are allowed in the place of an unknown one."""
    above = _model_at(location[:-1], model)
    return [] if above is None else sorted(above.model_fields)


def _model_at(location: Sequence[int | str], model: type[BaseModel]) -> type[BaseModel] | None:
    """Return the section at a location, None if there is none."""
    section: type[BaseModel] | None = model
    is_mapping = False
    for part in location:
        if is_mapping:
            is_mapping = False  # its keys are names chosen by the user, its values sections
        elif isinstance(part, str):  # otherwise an index in a list
            field = None if section is None else section.model_fields.get(part)
            section = None if field is None else next(_models_in(field.annotation), None)
            is_mapping = field is not None and get_origin(field.annotation) is dict
    return section


def _models_in(annotation: object) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from _models_in(inner)


def word_of(value: object) -> str:
    """Return a value as YAML on one line, in the form used inside a list or a mapping."""
    text: str = yaml.safe_dump(
        [value], default_flow_style=True, width=10_000, sort_keys=False, allow_unicode=True
    )
    return text.strip()[1:-1]
