"""What a campaign measures with, as documents that are compared when it is resumed. Pure.

The measurements of a campaign are analysed together, so they must come from the same spaces,
workload, statistics and testbed. Fields that are only explanatory (descriptions, sources) are left
out.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, fields, is_dataclass
from typing import Any

from search_spaces import Expression, Space
from tuner.judge.levels import ALPHA
from tuner.measure.workload import Workload
from tuner.model import Aspect
from tuner.plan.rules import Rules

#: Fields of a space that are explanatory or derived from others.
_EXPLANATORY = frozenset(
    {
        "about",
        "by_name",
        "evidence",
        "left_out",
        "order",
        "same_as_unset",
        "source",
        "strict_range",
        "title",
        "versions",
        "why",
    }
)
#: Maximum number of differences to name.
_MOST_NAMED = 3


def aspect(document: object) -> Aspect:
    """Create an aspect from this document, which must be JSON-serializable."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return Aspect(hashlib.sha256(text.encode()).hexdigest(), json.loads(text))


def aspects(
    spaces: Mapping[str, Space], workload: Workload, rules: Rules, testbed: Mapping[str, object]
) -> dict[str, Aspect]:
    """Return what a campaign measures with, as far as it is known before its testbed is opened.

    ``spaces``: by part, after narrowing. ``testbed``: where it measures, as JSON.
    """
    of_spaces = {f"space of the {name}": aspect(_plain(space)) for name, space in spaces.items()}
    race = asdict(rules.race)
    if rules.auto_floor:
        race["floor"] = "auto"
    statistics = {
        "alpha": ALPHA,
        "certify_blocks": rules.certify_blocks,
        "finalists": rules.finalists,
        # Stored campaigns have this key: without it none of them could be resumed.
        "race": {**race, "resolution_s": 0.0},
    }
    return {
        **of_spaces,
        "workload": aspect(_comparable(json.loads(workload.document))),
        "statistics": aspect(statistics),
        "testbed": aspect(testbed),
    }


def _comparable(workload: dict[str, Any]) -> dict[str, Any]:
    """Without the description, and the limits of stages: older stored campaigns lack them, and they
    do not change what is measured.
    """
    stages = [
        {key: value for key, value in stage.items() if key != "wall_clock_limit_s"}
        for stage in workload["stages"]
    ]
    words = {key: value for key, value in workload.items() if key != "description"}
    return {**words, "stages": stages}


def programs(identity: str) -> dict[str, Aspect]:
    """Return the programs and versions of an open testbed, as an aspect."""
    return {"programs": aspect({"identity": identity})}


def differences(then: Mapping[str, Aspect], now: Mapping[str, Aspect]) -> list[str]:
    """Return the aspects that differ from those the campaign was measured with, as phrases."""
    phrases = []
    for name in sorted(then.keys() & now.keys()):
        if then[name].digest != now[name].digest:
            paths = list(_paths("", then[name].document, now[name].document))
            more = f" and {len(paths) - _MOST_NAMED} more" if len(paths) > _MOST_NAMED else ""
            phrases.append(f"{name} ({', '.join(paths[:_MOST_NAMED])}{more})")
    return phrases


def _paths(where: str, old: object, new: object) -> Iterator[str]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys()):
            below = f"{where}.{key}" if where else str(key)
            if key not in new:
                yield f"{below} is gone"
            elif key not in old:
                yield f"{below} is new"
            else:
                yield from _paths(below, old[key], new[key])
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for number, (before, after) in enumerate(zip(old, new, strict=True)):
            yield from _paths(f"{where}.{number}", before, after)
    elif old != new:
        yield f"{where}: {_short(new)}, was {_short(old)}"


def _short(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 40 else f"{text[:37]}..."


def _plain(value: object) -> object:
    """Convert a space, or a part of one, to JSON; tuples of named items become objects by name."""
    if isinstance(value, Expression):
        return value.text
    if is_dataclass(value):
        names = (f.name for f in fields(value) if f.name not in _EXPLANATORY)
        return {name: _plain(getattr(value, name)) for name in names}
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, tuple):
        if value and all(hasattr(each, "name") for each in value):
            return {each.name: _plain(each) for each in value}
        return [_plain(each) for each in value]
    return value
