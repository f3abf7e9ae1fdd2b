"""Validation of the rows of an imported campaign: their shapes, sizes and times.

A file may come from anybody, and everything that reads the store trusts its rows. So a row is
accepted only if fstune could have written it: the limits are no wider than the widest rows that it
writes. Whether the configurations fit the campaign's search spaces is checked in
``tuner.spec.imported_configurations``.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import JSON, BigInteger, Boolean, Column, Double, Enum, Integer

from tuner.errors import SpecError
from tuner.identifiers import campaign_id
from tuner.states import EventKind, VerifyOutcome
from tuner.store.column_types import Seed, UtcTime

_EARLIEST, _LATEST = datetime(2000, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)
#: The longest text of data describes the state of every host of a testbed.
_LONGEST_TEXT, _LONGEST_DATA, _LONGEST_SPEC = 1 << 16, 1 << 20, 1 << 20
_MOST_ENTRIES = 10_000
#: Of the effect of a setting: a ratio and its interval.
_NUMBERS_OF_AN_EFFECT = 3
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
    return _mapping(raw, _parameter_name, _setting)


def _parameter_name(raw: Any) -> str:
    return str(_only_if(raw, _is(_PARAMETER, raw)))


def _is(pattern: re.Pattern[str], raw: Any) -> bool:
    return isinstance(raw, str) and pattern.fullmatch(raw) is not None


def _scalar(raw: Any) -> object:
    if raw is None or type(raw) is bool:
        return raw
    if isinstance(raw, str):
        return _text(raw, _LONGEST_DATA)
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


def wrong_data(kind: str, data: Mapping[str, Any], trials: int) -> str | None:
    """Return which data of an event are not what readers of its kind rely on; None: all are.

    ``trials``: the number of trials of the campaign.
    """
    checks = _EVENTS.get(kind, {})
    if kind.startswith("trial-"):
        checks = {"trial": lambda raw: _only_if(_whole(raw), raw < trials)}
    # Earlier versions stored less, but never a part of these.
    complete = kind == EventKind.LEFT_OUT or (kind == EventKind.WAITS and "until" in data)
    for name, check in checks.items():
        try:
            if complete or name in data:
                check(data[name])
        except (SpecError, KeyError, TypeError, ValueError):
            return name
    return None


def _setting_effects(raw: Any) -> object:
    def numbers(one: Any) -> object:
        return _only_if(_list(one, _positive), len(one) == _NUMBERS_OF_AN_EFFECT)

    return _mapping(raw, _parameter_name, numbers)


def _whole(raw: Any) -> int:
    return int(_only_if(raw, type(raw) is int and 0 <= raw < 1 << 31))


def _positive(raw: Any) -> float:
    return float(_only_if(_number(raw), raw > 0.0))


def _or_none(check: Callable[[Any], object]) -> Callable[[Any], object]:
    return lambda raw: None if raw is None else check(raw)


_OF_VERIFICATION: Mapping[str, Callable[[Any], object]] = {
    "request": _or_none(_whole),
    "asked_by": _text,
    "outcome": _or_none(VerifyOutcome),
    "reason": _or_none(_text),
    "caveat": _text,
    "campaign": campaign_id,
    "elsewhere": lambda raw: _only_if(raw, type(raw) is bool),
    "blocks": _or_none(_whole),
    **dict.fromkeys(("ratio", "lower", "upper", "confidence"), _or_none(_positive)),
}
_ARM: Mapping[str, Callable[[Any], object]] = {"block": _whole, "trial": _whole}
#: The data that decisions read, by kind of event.
_EVENTS: Mapping[str, Mapping[str, Callable[[Any], object]]] = {
    EventKind.BLOCK_COMPLETE: {"block": _whole},
    EventKind.MEASURED: _ARM,
    EventKind.MEASURED_AGAIN: _ARM,
    EventKind.RUN_FAILED: _ARM,
    EventKind.LEFT_OUT: _ARM,
    EventKind.FLOOR_CHOSEN: {
        "floor": lambda raw: _only_if(_positive(raw), raw < 1.0),
        "reason": _text,
    },
    EventKind.PAUSED: {"until": _moment},
    EventKind.WAITS: {
        "until": _moment,
        "host": _text,
        "machine": _text,
        "pid": lambda raw: _only_if(_whole(raw), raw > 0),
        "start_ticks": lambda raw: _only_if(raw, _is_int(raw) and raw >= 0),
    },
    EventKind.VERIFICATION: {"verifies": campaign_id, "request": _or_none(_whole)},
    EventKind.VERIFY_REQUESTED: _OF_VERIFICATION,
    EventKind.VERIFIED: _OF_VERIFICATION,
    EventKind.VERIFY_FAILED: _OF_VERIFICATION,
}


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
    ("recommendation", "settings"): _setting_effects,
}
