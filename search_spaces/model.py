"""The records of a search space: parameters, facts, constraints, presets. Data, no behaviour."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from enum import StrEnum

from search_spaces.expressions import Expression, Value


class SpaceError(ValueError):
    """A space, a narrowing or a command line that cannot be used. One line: where, what, why."""


class Kind(StrEnum):
    """How a parameter's values are spaced. ``INT``, ``LOG_INT`` and ``POWER_OF_TWO`` are whole
    numbers.
    """

    INT = "int"
    LOG_INT = "log_int"
    POWER_OF_TWO = "power_of_two"
    CATEGORICAL = "categorical"
    BOOLEAN = "boolean"

    @property
    def numeric(self) -> bool:
        """Whether values are whole numbers."""
        return self in (Kind.INT, Kind.LOG_INT, Kind.POWER_OF_TWO)


class Outside(StrEnum):
    """What the program does with a value outside its hard limits."""

    REFUSES = "refuses"
    CLAMPS = "clamps"
    IGNORES = "ignores"
    ACCEPTS = "accepts"


class Change(StrEnum):
    """What must happen for a new value to come into effect."""

    LIVE = "live"
    REMOUNT = "remount"
    RESTART = "restart"


class Risk(StrEnum):
    """What is at stake. All but ``PERFORMANCE`` keep the value as found unless a campaign allows
    the class.
    """

    PERFORMANCE = "performance"
    DURABILITY = "durability"
    SECURITY = "security"
    AVAILABILITY = "availability"


class Role(StrEnum):
    """Whether a parameter is searched by default.

    ``CONTROL``: the source says that it is inert in a short trial; searched only on purpose, to
    show that no effect is found where there is none. ``HELD``: keeps the value as found.
    """

    SEARCHED = "searched"
    CONTROL = "control"
    HELD = "held"


class Form(StrEnum):
    """How a program takes its settings.

    ``LIBCMD``: options on a command line, read by libcmd's rules. ``EXACT``: options on a command
    line, each in full. ``SETTINGS``: words ``name=value`` (sysctl, registry values). ``COMMANDS``:
    a command of the program for each setting.
    """

    LIBCMD = "libcmd"
    EXACT = "exact"
    SETTINGS = "settings"
    COMMANDS = "commands"


class Use(StrEnum):
    """What a space can be used for.

    ``CAMPAIGNS``: on real programs. ``SIMULATION``: campaigns on simulated testbeds. ``READING``:
    to be shown, sampled and parsed with.
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
    """What the program itself accepts, inclusive; None is no limit."""

    low: int | None = None
    high: int | None = None
    outside: Outside = Outside.ACCEPTS


@dataclass(frozen=True, slots=True)
class Bound:
    """A limit that depends on other parameters or on the host. ``clamped``: the program enforces it
    silently.
    """

    expression: Expression
    why: str
    clamped: bool


@dataclass(frozen=True, slots=True)
class Condition:
    """When a parameter exists at all."""

    expression: Expression
    why: str


@dataclass(frozen=True, slots=True)
class ReadBack:
    """Where the running program shows the value. ``shows``: the number shown there; None is the
    value itself.
    """

    key: str
    shows: Expression | None = None


@dataclass(frozen=True, slots=True)
class Parameter:
    """One knob.

    ``flag`` is its full option name; a categorical parameter may have one bare option a choice
    instead (``choice_flags``); ``off_flag`` is the option that says False. ``low`` and ``high``
    bound the sensible range, inclusive; ``choices`` are all valid words and ``candidates`` the
    sensible ones. ``defaults`` is the program's own default by preset; a default of None has no
    fixed value. ``accompanied_by``: values to set with it, because setting it alone moves another
    knob. ``memory`` is in bytes. ``supplies``: the fact of other spaces that a set value changes.
    ``fixed``: the value that a narrowing gave it.
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
    choices: tuple[str, ...] = ()
    candidates: tuple[str, ...] = ()
    choice_flags: Mapping[str, str] = field(default_factory=dict)
    off_flag: str = ""
    special: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, Expression | Value | None] = field(default_factory=dict)
    only_if: Condition | None = None
    at_least: Bound | None = None
    at_most: Bound | None = None
    change: Change = Change.RESTART
    risk: Risk = Risk.PERFORMANCE
    role: Role = Role.SEARCHED
    memory: Expression | None = None
    versions: str = ""
    read_back: ReadBack | None = None
    accompanied_by: Mapping[str, Value] = field(default_factory=dict)
    supplies: str = ""
    searched: bool = False
    fixed: Value | None = None

    @property
    def flags(self) -> tuple[str, ...]:
        """Every option that speaks of this parameter."""
        own = (self.flag, self.off_flag, *self.choice_flags.values())
        return tuple(flag for flag in own if flag)


@dataclass(frozen=True, slots=True)
class Fact:
    """Something about the host that limits a parameter. ``assumed``: its value where nobody has
    looked.
    """

    name: str
    assumed: int
    unit: str
    about: str


@dataclass(frozen=True, slots=True)
class Constraint:
    """A rule over the whole configuration.

    When it does not hold, the parameters in ``lower`` are lowered in this order, and if that is not
    enough, those and then the ones in ``unset`` are unset.
    """

    rule: Expression
    why: str
    lower: tuple[str, ...]
    unset: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Option:
    """One option of the program. ``left_out``: why no parameter of the space speaks of it; empty if
    one does.
    """

    flag: str
    takes: Takes
    left_out: str = ""


@dataclass(frozen=True, slots=True)
class Preset:
    """A published configuration. ``rest``: its options that are no parameters of the
    space.
    """

    name: str
    options: str
    source: str
    values: Mapping[str, Value]
    rest: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Parsed:
    """The meaning of a command line: the parameters that it sets and, with full names, all other
    words.
    """

    values: dict[str, Value]
    rest: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Expected:
    """What the running program should show for one parameter.

    ``key``: where (see ReadBack); ``reading``: the number or word there; ``value``: the parameter's
    own value in effect, ``requested`` the one asked for, different only if ``clamped``; ``why``:
    what clamped it.
    """

    key: str
    reading: Value
    value: Value
    requested: Value
    clamped: bool = False
    why: str = ""


def nearest(word: str, words: Iterable[str]) -> str:
    """The hint `` (did you mean ...?)`` for a misspelt word; all valid words if none is near."""
    valid_words = [str(valid) for valid in words]
    close = get_close_matches(word, valid_words, 1, 0.5)
    if close:
        return f" (did you mean {close[0]!r}?)"
    return f" (valid: {', '.join(valid_words)})" if valid_words else ""
