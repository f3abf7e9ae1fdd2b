"""What a kind of service counts, as an administrator reads it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Unit(StrEnum):
    """What a number is in."""

    COUNT = "count"
    BYTES = "bytes"
    SECONDS = "s"


class Good(StrEnum):
    """Which direction is good; EITHER for what is neither by itself."""

    FEWER = "fewer"
    MORE = "more"
    EITHER = "either"


@dataclass(frozen=True, slots=True)
class Counted:
    """One of the diagnostics. ``ending``: of the names that are added up, over the hosts;
    ``name``: what it is, in the plural; ``meaning``: a sentence on what it tells an administrator.
    """

    ending: str
    name: str
    unit: Unit
    good: Good
    meaning: str
