"""Descriptions, for administrators, of the diagnostics of a kind of service."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Unit(StrEnum):
    """The unit of a diagnostic."""

    COUNT = "count"
    BYTES = "bytes"
    SECONDS = "s"


class BetterWhen(StrEnum):
    """Which direction is an improvement; EITHER if neither is in itself."""

    FEWER = "fewer"
    MORE = "more"
    EITHER = "either"


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One diagnostic.

    ``ending``: suffix of the counter names that are summed over the hosts; ``name``: a plural noun
    phrase; ``meaning``: one sentence on how an administrator should read it.
    """

    ending: str
    name: str
    unit: Unit
    good: BetterWhen
    meaning: str
