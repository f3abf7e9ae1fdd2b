"""A search space: its parameters in dependency order, and everything that can be asked of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from search_spaces import commandline, effects, narrowing
from search_spaces.expressions import Value
from search_spaces.model import (
    Constraint,
    Expected,
    Fact,
    Form,
    Option,
    Parameter,
    Parsed,
    Preset,
    Risk,
    SpaceError,
    nearest,
)


@dataclass(frozen=True, slots=True)
class Space:
    """What may be set on one program. Made by ``load``; ``narrow`` makes a smaller one.

    ``component`` qualifies the parameters' names outside (``fileserver.threads``). ``parameters``
    are in the order of the file, which is the order on the command line; ``order`` has each after
    those it depends on. ``preset_parameter`` names the one that chooses the column of defaults,
    empty if there is none, and ``preset_fields`` those that it sets. ``options``: everything the
    program takes, in the order of its own help. ``foreign_options``: options it does not know are
    handed on to something else. ``evidence``: what limits and options were checked against.
    """

    name: str
    component: str
    title: str
    program: str
    versions: str
    parameters: tuple[Parameter, ...]
    facts: Mapping[str, Fact]
    constraints: tuple[Constraint, ...]
    options: tuple[Option, ...]
    presets: tuple[Preset, ...] = ()
    order: tuple[Parameter, ...] = ()
    preset_parameter: str = ""
    preset_fields: tuple[str, ...] = ()
    form: Form = Form.LIBCMD
    evidence: str = ""
    foreign_options: bool = False
    by_name: Mapping[str, Parameter] = field(default_factory=dict, repr=False)

    def __getitem__(self, name: str) -> Parameter:
        """The parameter of that name. Raises SpaceError, which names the nearest one."""
        try:
            return self.by_name[name]
        except KeyError:
            raise SpaceError(f"{self.name}: no parameter {name!r}{self.hint(name)}") from None

    def hint(self, name: str) -> str:
        """Which parameter an unknown name may mean: one that is spelt like it, or has that
        option.
        """
        for parameter in self.parameters:
            if name.lstrip("-") in [flag.lstrip("-") for flag in parameter.flags]:
                return f" (did you mean {parameter.name!r}?)"
        return nearest(name, self.by_name)

    @property
    def searched(self) -> tuple[Parameter, ...]:
        """The parameters for which values are proposed, in the order of asking."""
        return tuple(p for p in self.order if p.searched and p.fixed is None)

    def assume(self, facts: Mapping[str, int] | None = None) -> dict[str, Value]:
        """Every fact of this space: as given, otherwise as assumed. Facts of other spaces are
        passed over.
        """
        given = facts or {}
        return {name: given.get(name, fact.assumed) for name, fact in self.facts.items()}

    def render(self, values: Mapping[str, Value]) -> list[str]:
        """The options that say ``values``: full names, in the order of the space, one argument an
        item.

        Raises SpaceError for an unknown parameter or a value of the wrong type.
        """
        return commandline.render(self, values)

    def parse(self, argv: Sequence[str]) -> Parsed:
        """What a command line of the program means, read by the program's own rules.

        A leading program path is passed over. A preset together with values that it sets is
        expanded into values. Raises SpaceError where the program would refuse the command line, or
        would silently read a word as a number.
        """
        parsed = commandline.parse(self, argv)
        values = effects.expand_preset(self, parsed.values, self.preset_fields)
        return Parsed(values, parsed.rest)

    def lines(self, values: Mapping[str, Value]) -> list[str]:
        """What ``render`` gives as lines for a person to read or type; none when nothing is set."""
        return commandline.lines(self, values)

    def supplied(
        self, values: Mapping[str, Value], facts: Mapping[str, int] | None = None
    ) -> dict[str, int]:
        """The facts for the spaces that come after this one, once ``values`` are in effect here.

        So a kernel limit that is raised first lets a program's own value be larger.
        """
        changed = dict(facts or {})
        for name, value in values.items():
            fact = self[name].supplies
            if fact and isinstance(value, int):
                changed[fact] = int(value)
        return changed

    def violations(
        self, values: Mapping[str, Value], facts: Mapping[str, int] | None = None
    ) -> list[str]:
        """Why ``values`` is no valid configuration, a sentence each; empty if it is one."""
        return effects.violations(self, values, facts)

    def impossible(self, values: Mapping[str, Value]) -> list[str]:
        """Why no host takes ``values``, a sentence each; empty if some host may."""
        return effects.impossible(self, values)

    def effective(
        self, values: Mapping[str, Value], facts: Mapping[str, int] | None = None
    ) -> dict[str, Expected]:
        """What reading back should show, by parameter, for each one that ``values`` sets or its
        preset sets.

        Parameters that the program does not show are missing.
        """
        return effects.effective(self, values, facts)

    def in_effect(
        self, values: Mapping[str, Value], facts: Mapping[str, int] | None = None
    ) -> dict[str, Value]:
        """Each parameter's value once ``values`` are set: as set, clamped, or by default.

        One that is unset and has no fixed default is missing.
        """
        env, _ = effects.settle(self, values, facts)
        return {p.name: env[p.name] for p in self.parameters if p.name in env}

    def fit(
        self, values: Mapping[str, Value], facts: Mapping[str, int] | None = None
    ) -> dict[str, Value]:
        """The nearest valid configuration: values moved into their limits, conditional ones
        dropped.

        What was valid stays as it is. Raises SpaceError if the values that a narrowing fixed rule
        every configuration out on this host.
        """
        return effects.fit(self, values, facts)

    def memory_bytes(
        self, values: Mapping[str, Value], facts: Mapping[str, int] | None = None
    ) -> int:
        """The memory that the program takes for what ``values`` configures, an estimate."""
        env, _ = effects.settle(self, values, facts)
        return effects.memory_estimate(self, env)

    def searching(self, names: Collection[str]) -> Space:
        """The space with these parameters searched too, whatever their risk."""
        changed = {p.name: replace(p, searched=p.searched or p.name in names) for p in self.order}
        return narrowing.with_parameters(self, changed)

    def narrow(
        self,
        *,
        only: Collection[str] | None = None,
        also: Collection[str] = (),
        fix: Mapping[str, Value] | None = None,
        ranges: Mapping[str, Sequence[Value]] | None = None,
        allow_risk: Collection[str | Risk] = (),
    ) -> Space:
        """A space that searches less, or what it does not search by default.

        ``only``: search these and no other; ``also``: search these besides the default ones;
        ``fix``: always set these values; ``ranges``: ``[low, high]`` or a list of words;
        ``allow_risk``: risk classes that may be searched. Raises SpaceError, one line, at the first
        that cannot be done; nothing is half-applied.
        """
        return narrowing.narrow(self, only, also, fix or {}, ranges or {}, allow_risk)
