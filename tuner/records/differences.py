"""How two configurations differ."""

from __future__ import annotations

from dataclasses import dataclass

from tuner.model import Configuration, Value
from tuner.text import value_text


@dataclass(frozen=True, slots=True)
class Difference:
    """One parameter in which two configurations differ; None if it is not set."""

    name: str
    old: Value | None
    new: Value | None


def differences(old: Configuration, new: Configuration) -> tuple[tuple[Difference, ...], int]:
    """Return the parameters that differ, sorted by name, and the number of those that are equal."""
    before, after = old.as_dict(), new.as_dict()
    names = sorted(before.keys() | after.keys())
    changed = tuple(
        Difference(name, before.get(name), after.get(name))
        for name in names
        if _distinct(before.get(name)) != _distinct(after.get(name))
    )
    return changed, len(names) - len(changed)


def names_of_changes(old: Configuration, new: Configuration) -> tuple[str, ...]:
    """Return the names of the parameters that differ, sorted."""
    return tuple(one.name for one in differences(old, new)[0])


def _distinct(value: Value | None) -> tuple[type, Value | None]:
    # 1 == True in Python, but not in a configuration.
    return type(value), value


def changes(old: Configuration, new: Configuration) -> str:
    """Describe the differences briefly, without part names: "threads=64 vnodes=not set"."""
    changed, _ = differences(old, new)
    return " ".join(f"{d.name.rpartition('.')[2]}={value_text(d.new)}" for d in changed)
