"""Validation of the rows of an imported campaign: their shapes, sizes and times.

A file may come from anybody, and everything that reads the store trusts its rows. So a row is
accepted only if fstune could have written it: the limits are no wider than the widest rows that it
writes.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import JSON, BigInteger, Boolean, Column, Double, Enum, Integer

from tuner.identifiers import campaign_id
from tuner.store.column_types import Seed, UtcTime

_EARLIEST, _LATEST = datetime(2000, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)
_LONGEST_TEXT, _LONGEST_SPEC = 1 << 16, 1 << 20
_MOST_ENTRIES = 10_000
_DEEPEST = 32
_PARAMETER = re.compile(r"[a-z][a-z0-9_]{0,63}\.[a-z][a-z0-9_]{0,63}", re.ASCII)
_KIND = re.compile(r"[a-z][a-z0-9-]{0,63}", re.ASCII)
#: As written by ``archive``: JSON has no such numbers.
_INFINITE = {"inf": math.inf, "-inf": -math.inf}
_BITS = ((Seed, 0, 1 << 64), (BigInteger, -(1 << 63), 1 << 63), (Integer, -(1 << 31), 1 << 31))


def value(column: Column[Any], raw: Any) -> object:
    """Return a raw value converted for a column; TypeError or ValueError when it is not valid
    there.
    """
    if raw is None:
        if not column.nullable:
            raise TypeError
        return None
    kind = column.type
    shape = _SHAPES.get((column.table.name, column.name)) or _SHAPES.get(("", column.name))
    if shape is not None:
        return shape(raw)
    if isinstance(kind, UtcTime):
        return _moment(raw)
    if isinstance(kind, Enum):
        assert kind.enum_class is not None
        return kind.enum_class(raw)
    if isinstance(kind, Double):
        return _INFINITE[raw] if raw in _INFINITE else _number(raw)
    if isinstance(kind, Boolean):
        return _only_if(raw, type(raw) is bool)
    for whole, least, beyond in _BITS:
        if isinstance(kind, whole):
            return _only_if(raw, type(raw) is int and least <= raw < beyond)
    if isinstance(kind, JSON):
        raise TypeError  # no shape is declared for it, so nothing is valid
    return _text(raw)


def _only_if(raw: Any, holds: bool) -> Any:
    if not holds:
        raise ValueError
    return raw


def _number(raw: Any) -> float:
    if type(raw) not in (int, float):
        raise TypeError
    value = float(raw)
    return float(_only_if(value, math.isfinite(value)))


def _text(raw: Any, longest: int = _LONGEST_TEXT) -> str:
    if not isinstance(raw, str):
        raise TypeError
    raw.encode()  # a lone surrogate is a ValueError
    return str(_only_if(raw, len(raw) <= longest and "\0" not in raw))


def _moment(raw: Any) -> datetime:
    value = datetime.fromisoformat(_text(raw))
    return _only_if(value, value.tzinfo is not None and _EARLIEST <= value <= _LATEST)  # type: ignore[no-any-return]


def _list(raw: Any, each: Callable[[Any], object]) -> list[object]:
    _only_if(raw, isinstance(raw, list) and len(raw) <= _MOST_ENTRIES)
    return [each(one) for one in raw]


def _mapping(raw: Any, key: Callable[[Any], str], each: Callable[[Any], object]) -> dict[str, Any]:
    _only_if(raw, isinstance(raw, Mapping) and len(raw) <= _MOST_ENTRIES)
    return {key(name): each(one) for name, one in raw.items()}


def _setting(raw: Any) -> object:
    return _text(raw) if isinstance(raw, str) else _only_if(raw, type(raw) is bool or _is_int(raw))


def _is_int(raw: Any) -> bool:
    return type(raw) is int and -(1 << 63) <= raw < 1 << 63


def _configuration(raw: Any) -> object:
    return _mapping(raw, lambda name: str(_only_if(name, _is(_PARAMETER, name))), _setting)


def _is(pattern: re.Pattern[str], raw: Any) -> bool:
    return isinstance(raw, str) and pattern.fullmatch(raw) is not None


def _scalar(raw: Any) -> object:
    if raw is None or type(raw) is bool:
        return raw
    if isinstance(raw, str):
        return _text(raw)
    return raw if _is_int(raw) else _number(raw)


def _particulars(raw: Any) -> object:
    return _mapping(raw, _text, _scalar)


def _diagnostics(raw: Any) -> object:
    return _mapping(raw, _text, lambda one: _text(one) if isinstance(one, str) else _number(one))


def _flags(raw: Any) -> object:
    return _mapping(raw, _text, lambda options: _list(options, _text))


def _document(raw: Any, depth: int = 0) -> object:
    _only_if(raw, depth <= _DEEPEST)
    if isinstance(raw, list):
        return _list(raw, lambda one: _document(one, depth + 1))
    if isinstance(raw, dict):
        return _mapping(raw, _text, lambda one: _document(one, depth + 1))
    return _scalar(raw)


def _spec(raw: Any) -> str:
    text = _text(raw, _LONGEST_SPEC)
    _document(_only_if(json.loads(text), text.lstrip().startswith("{")))
    return text


def _texts(raw: Any) -> object:
    return _list(raw, _text)


#: Validators by table and column; a column with an empty table name is of any table.
_SHAPES: Mapping[tuple[str, str], Callable[[Any], object]] = {
    ("", "campaign"): campaign_id,
    ("campaign", "id"): campaign_id,
    ("campaign", "spec"): _spec,
    ("event", "kind"): lambda raw: _only_if(raw, _is(_KIND, raw)),
    ("event", "data"): _particulars,
    ("measured_with", "document"): _document,
    ("measurement", "diagnostics"): _diagnostics,
    ("block", "order"): lambda raw: _list(
        raw, lambda one: _only_if(one, _is_int(one) and one >= 0)
    ),
    ("", "baseline"): _configuration,
    ("", "configuration"): _configuration,
    ("", "requested"): _configuration,
    ("", "effective"): _configuration,
    ("", "flags"): _flags,
    ("", "baseline_flags"): _flags,
    ("", "actions"): _texts,
    ("", "notes"): _texts,
}
