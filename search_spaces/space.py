"""A search space: its parameters in dependency order, and all operations on it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from search_spaces import commandline, effects, narrowing
from search_spaces.catalogue import Catalogue
from search_spaces.expressions import Value
from search_spaces.model import (
    Expected,
    Parsed,
    Risk,
)


@dataclass(frozen=True, slots=True)
class Space(Catalogue):
    """The settings of one program, and all operations on them. Made by ``load``;
    ``narrow`` makes a smaller one.
    """

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

    def supplies(
        self, values: Mapping[str, Value], facts: Mapping[str, int] | None = None
    ) -> dict[str, int]:
        """The facts for the spaces that come after this one, once ``values`` are in effect here.

        So a kernel limit that is raised first lets a program's own value be larger.
        """
        result = dict(facts or {})
        for name, value in values.items():
            fact = self[name].supplies
            if fact and isinstance(value, int):
                result[fact] = int(value)
        return result

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
        parameters = {
            p.name: replace(p, searched=p.searched or p.name in names) for p in self.order
        }
        return narrowing.with_parameters(self, parameters)

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
