"""Reads typed fields from a mapping and names the key path in every error.

Does not know what the fields mean; that is up to ``spec``, ``sizes`` and others.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_NAME_LIMIT = 40
#: Size of the largest whole numbers that a message repeats.
_SHOWN_BITS = 128


class SpecError(ValueError):
    """An invalid spec. ``key`` is the path of the offending key, "" for the spec as a whole."""

    def __init__(self, key: str, problem: str) -> None:
        super().__init__(f"{key}: {problem}" if key else problem)
        self.key = key
        self.problem = problem


def check_name(key: str, value: object) -> str:
    """Return ``value`` if it is a plain name (lower-case words joined by single hyphens)."""
    if not isinstance(value, str):
        raise SpecError(key, f"must be a string, not {_kind(value)}")
    if len(value) > _NAME_LIMIT or not _NAME.fullmatch(value):
        raise SpecError(
            key,
            f"must be lower-case letters and digits joined by hyphens,"
            f" at most {_NAME_LIMIT} characters, not {value!r}",
        )
    return value


class Fields:
    """One mapping of a spec, read key by key; ``refuse_unknown`` rejects keys never read."""

    def __init__(self, value: object, key: str) -> None:
        if not isinstance(value, Mapping):
            raise SpecError(key, f"must be a mapping, not {_kind(value)}")
        for name in value:
            if not isinstance(name, str):
                raise SpecError(key, f"has the key {name!r}, which is not a string")
        self.key = key
        self._values: Mapping[str, object] = value
        self._names: set[str] = set()

    def path(self, name: str) -> str:
        """Return the key path of the field ``name``."""
        return f"{self.key}.{name}" if self.key else name

    def has(self, name: str) -> bool:
        self._names.add(name)
        return name in self._values

    def value(self, name: str) -> object:
        """Return the field's raw value; raises SpecError when it is missing."""
        if not self.has(name):
            raise SpecError(self.path(name), "is missing")
        return self._values[name]

    def text(self, name: str) -> str:
        """Return a non-empty string."""
        value = self.value(name)
        if not isinstance(value, str):
            raise SpecError(self.path(name), f"must be a string, not {_kind(value)}")
        if not value.strip():
            raise SpecError(self.path(name), "must not be empty")
        return value

    def name(self, name: str) -> str:
        return check_name(self.path(name), self.value(name))

    def choice(self, name: str, choices: tuple[str, ...], default: str | None = None) -> str:
        """Return one of ``choices``, or ``default`` if there is one and the field is absent."""
        if default is not None and not self.has(name):
            return default
        value = self.value(name)
        if not isinstance(value, str) or value not in choices:
            raise SpecError(
                self.path(name), f"must be one of {', '.join(choices)}, not {_show(value)}"
            )
        return value

    def integer(self, name: str, low: int, high: int, default: int | None = None) -> int:
        """Return an integer in low..high, both included."""
        if default is not None and not self.has(name):
            return default
        value = self.value(name)
        if isinstance(value, bool) or not isinstance(value, int):
            raise SpecError(self.path(name), f"must be a whole number, not {_show(value)}")
        if not low <= value <= high:
            raise SpecError(
                self.path(name), f"must be between {low} and {high}, not {_show(value)}"
            )
        return value

    def number(self, name: str, low: float, high: float, default: float | None = None) -> float:
        """Return a finite number in low..high, both included."""
        if default is not None and not self.has(name):
            return default
        value = self.value(name)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise SpecError(self.path(name), f"must be a number, not {_show(value)}")
        # In this order: math.isfinite fails for a whole number that is too large for a float.
        if not low <= value <= high or not math.isfinite(value):
            raise SpecError(
                self.path(name), f"must be between {low:g} and {high:g}, not {_show(value)}"
            )
        return float(value)

    def flag(self, name: str) -> bool:
        """Return a boolean, False if the field is absent."""
        if not self.has(name):
            return False
        value = self.value(name)
        if not isinstance(value, bool):
            raise SpecError(self.path(name), f"must be true or false, not {_show(value)}")
        return value

    def items(self, name: str) -> list[tuple[str, object]]:
        """Return a non-empty list as (key path, item) pairs."""
        value = self.value(name)
        if not isinstance(value, list):
            raise SpecError(self.path(name), f"must be a list, not {_kind(value)}")
        if not value:
            raise SpecError(self.path(name), "must not be empty")
        return [(f"{self.path(name)}[{index}]", item) for index, item in enumerate(value)]

    def mapping(self, name: str) -> list[tuple[str, object]]:
        """Return a non-empty mapping of plain names as (name, value) pairs, in order."""
        inner = Fields(self.value(name), self.path(name))
        if not inner._values:
            raise SpecError(self.path(name), "must not be empty")
        return [(check_name(inner.path(key), key), item) for key, item in inner._values.items()]

    def refuse_unknown(self) -> None:
        """Raise SpecError when the mapping has a key that was never read."""
        for name in self._values:
            if name not in self._names:
                names = ", ".join(sorted(self._names))
                raise SpecError(self.path(name), f"is not a known key; known here: {names}")


def _kind(value: object) -> str:
    return "nothing" if value is None else f"a {type(value).__name__}"


def _show(value: object) -> str:
    if isinstance(value, int) and value.bit_length() > _SHOWN_BITS:
        return "a number that large"  # Python refuses to write the largest ones as text
    return repr(value) if isinstance(value, (str, int, float)) else _kind(value)
