"""Data classes of a search space: parameters, facts, constraints and presets."""

from __future__ import annotations

import re
import reprlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from enum import StrEnum

from search_spaces.expressions import Expression, Value
from search_spaces.expressions import SpaceError as SpaceError


class Kind(StrEnum):
    """Type and spacing of a parameter's values."""

    INT = "int"
    LOG_INT = "log_int"
    POWER_OF_TWO = "power_of_two"
    CATEGORICAL = "categorical"
    BOOLEAN = "boolean"

    @property
    def numeric(self) -> bool:
        """Whether values are integers."""
        return self in (Kind.INT, Kind.LOG_INT, Kind.POWER_OF_TWO)


class Outside(StrEnum):
    """What the program does with a value outside its hard limits."""

    REFUSES = "refuses"
    CLAMPS = "clamps"
    IGNORES = "ignores"
    ACCEPTS = "accepts"


class Change(StrEnum):
    """What a new value requires to take effect."""

    LIVE = "live"
    REMOUNT = "remount"
    RESTART = "restart"


class Risk(StrEnum):
    """What a bad value can harm. Parameters of all classes but ``PERFORMANCE`` keep their original
    value unless a campaign allows the class.
    """

    PERFORMANCE = "performance"
    DURABILITY = "durability"
    SECURITY = "security"
    AVAILABILITY = "availability"


class Role(StrEnum):
    """Whether a parameter is searched by default.

    ``CONTROL``: according to the source, it has no effect in a short trial; searched only on
    purpose, as a negative control. ``HELD``: keeps its original value.
    """

    SEARCHED = "searched"
    CONTROL = "control"
    HELD = "held"


class Form(StrEnum):
    """How a program accepts its settings.

    ``LIBCMD``: command-line options, parsed by libcmd's rules. ``EXACT``: command-line options,
    written in full. ``SETTINGS``: ``name=value`` words (sysctl, registry values). ``COMMANDS``: one
    command of the program per setting. ``LINES``: ``name = value`` lines of a file or of one of its
    sections, whose names and values may have blanks.
    """

    LIBCMD = "libcmd"
    EXACT = "exact"
    SETTINGS = "settings"
    COMMANDS = "commands"
    LINES = "lines"


class Use(StrEnum):
    """What a space can be used for.

    ``CAMPAIGNS``: campaigns on real programs. ``SIMULATION``: campaigns on simulated testbeds.
    ``READING``: showing, sampling and parsing only.
    """

    CAMPAIGNS = "campaigns"
    SIMULATION = "simulation"
    READING = "reading"


class Takes(StrEnum):
    """What follows an option on the command line."""

    NOTHING = "nothing"
    VALUE = "value"
    VALUES = "values"
    OPTIONAL = "optional_value"


@dataclass(frozen=True, slots=True)
class HardLimits:
    """Inclusive limits enforced by the program itself; None means no limit."""

    low: int | None = None
    high: int | None = None
    outside: Outside = Outside.ACCEPTS

    def __contains__(self, value: float) -> bool:
        return (self.low is None or value >= self.low) and (self.high is None or value <= self.high)

    @property
    def text(self) -> str:
        """The limits as ``low..high``; a limit that does not exist is left out."""
        return f"{'' if self.low is None else self.low}..{'' if self.high is None else self.high}"


@dataclass(frozen=True, slots=True)
class Bound:
    """A limit that depends on other parameters or on the host.

    ``clamped``: the program enforces it silently.
    """

    expression: Expression
    why: str
    clamped: bool


@dataclass(frozen=True, slots=True)
class Condition:
    """Condition under which a parameter may be set."""

    expression: Expression
    why: str


@dataclass(frozen=True, slots=True)
class ReadBack:
    """Where the running program reports the value. ``shows``: the number reported there, None for
    the value itself.
    """

    key: str
    shows: Expression | None = None


#: A special number, or a range of them such as ``1..1024``.
_SPECIAL = re.compile(r"(-?[0-9]+)(?:\.\.(-?[0-9]+))?")


@dataclass(frozen=True, slots=True)
class Parameter:
    """One tunable setting.

    ``flag``: full option name; a categorical parameter may instead have one bare option per choice
    (``choice_flags``). ``off_flag``: option that sets it to False. ``low``, ``high``: inclusive
    bounds of the sensible range. ``strict_range``: whether narrowing set them, so that not even a
    limit moves a value out of them. ``choices``: all valid words; ``candidates``: the sensible
    ones. ``special``: values that mean something else than their number, and what; numbers also as
    a range such as ``1..1024``. ``same_as_unset``: a number that the program reads as if the
    parameter were unset. ``defaults``: the program's own default by preset; None if there is
    no fixed default.
    ``accompanied_by``: values to set with it, because setting it alone changes another parameter.
    ``safe``: values that put nothing but performance at risk although others do; of a number, the
    inclusive bounds of such values. ``memory``: in bytes. ``supplies``: the fact of other spaces
    that a set value changes. ``fixed``: the value to which narrowing fixed it.
    """

    name: str
    flag: str
    kind: Kind
    about: str
    source: str
    unit: str = ""
    hard: HardLimits = HardLimits()
    low: int = 0
    high: int = 0
    strict_range: bool = False
    choices: tuple[str, ...] = ()
    candidates: tuple[str, ...] = ()
    choice_flags: Mapping[str, str] = field(default_factory=dict)
    off_flag: str = ""
    special: Mapping[str, str] = field(default_factory=dict)
    same_as_unset: int | None = None
    defaults: Mapping[str, Expression | Value | None] = field(default_factory=dict)
    only_if: Condition | None = None
    at_least: Bound | None = None
    at_most: Bound | None = None
    change: Change = Change.RESTART
    risk: Risk = Risk.PERFORMANCE
    safe: tuple[Value, ...] = ()
    role: Role = Role.SEARCHED
    memory: Expression | None = None
    versions: str = ""
    read_back: ReadBack | None = None
    accompanied_by: Mapping[str, Value] = field(default_factory=dict)
    supplies: str = ""
    searched: bool = False
    fixed: Value | None = None

    def risk_of(self, value: Value) -> Risk:
        """What this value can harm."""
        if self.kind.numeric and self.safe and not isinstance(value, str):
            low, high = map(int, self.safe)
            is_safe = low <= value <= high
        else:
            is_safe = value in self.safe
        return Risk.PERFORMANCE if is_safe else self.risk

    def meaning(self, number: int) -> str:
        """What a special number means, "" for any other."""
        for word, text in self.special.items():
            bounds = _SPECIAL.fullmatch(word)
            if bounds and int(bounds[1]) <= number <= int(bounds[2] or bounds[1]):
                return text
        return ""

    @property
    def stays_as_found(self) -> bool:
        """Whether it keeps its original value unless somebody asks for another one."""
        return self.risk is not Risk.PERFORMANCE or self.role is Role.HELD

    @property
    def flags(self) -> tuple[str, ...]:
        """All options that set this parameter."""
        own = (self.flag, self.off_flag, *self.choice_flags.values())
        return tuple(flag for flag in own if flag)


@dataclass(frozen=True, slots=True)
class Fact:
    """A property of the host that limits a parameter. ``assumed``: its value where unknown."""

    name: str
    assumed: int
    unit: str
    about: str


@dataclass(frozen=True, slots=True)
class Constraint:
    """A rule over the whole configuration.

    If it is violated, the parameters in ``lower`` are lowered in this order. If that is not enough,
    they are unset, followed by those in ``unset``.
    """

    rule: Expression
    why: str
    lower: tuple[str, ...]
    unset: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Option:
    """One option of the program.

    ``left_out``: why no parameter covers it, empty if one does. ``versions``: the versions that
    take it, where not all of the space do.
    """

    flag: str
    takes: Takes
    left_out: str = ""
    versions: str = ""


@dataclass(frozen=True, slots=True)
class Preset:
    """A published configuration. ``rest``: its options that are not parameters of the space."""

    name: str
    options: str
    source: str
    values: Mapping[str, Value]
    rest: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Parsed:
    """A parsed command line. ``values``: the parameters it sets; ``rest``: all other words, with
    option names in full.
    """

    values: dict[str, Value]
    rest: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Expected:
    """What the running program should report for one parameter.

    ``key``: where it is reported (see ReadBack); ``reading``: the number or word reported there.
    ``value``: the parameter's value in effect; ``requested``: the requested value, which differs
    only if ``clamped``. ``why``: what clamped it.
    """

    key: str
    reading: Value
    value: Value
    requested: Value
    clamped: bool = False
    why: str = ""


#: Aliases can make a small file into a value with too many words to print.
_EXCERPTS = reprlib.Repr()
_EXCERPTS.maxlevel, _EXCERPTS.maxdict, _EXCERPTS.maxlist = 2, 10, 10
_EXCERPTS.maxstring = _EXCERPTS.maxlong = _EXCERPTS.maxother = 200


def excerpt(value: object) -> str:
    """A value of a file as it is shown in an error, shortened if it is large."""
    try:
        return _EXCERPTS.repr(value)
    except ValueError:
        return "a number with too many digits to print"  # Python does not print it


def nearest(word: str, words: Iterable[str]) -> str:
    """Hint `` (did you mean ...?)`` for a misspelt word; lists all valid words if none is close."""
    valid_words = [str(valid) for valid in words]
    close = get_close_matches(word, valid_words, 1, 0.5)
    if close:
        return f" (did you mean {close[0]!r}?)"
    return f" (valid: {', '.join(valid_words)})" if valid_words else ""
