"""A search space: its parameters in dependency order, and all operations on it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from search_spaces import commandline, fitting, narrowing, values_in_effect
from search_spaces.expressions import ExpressionError, Value
from search_spaces.model import (
    Expected,
    Parsed,
    Risk,
    SpaceError,
)
from search_spaces.space_content import SpaceContent


@dataclass(frozen=True, slots=True)
class Space(SpaceContent):
    """The settings of one program, with all operations on them. Created by ``load``."""

    def render(self, values: Mapping[str, Value]) -> list[str]:
        """Render ``values`` as arguments: full option names, in the order of the space.

        Raises SpaceError for an unknown parameter or a value of the wrong type.
        """
        return commandline.render(self, values)

    def parse(self, argv: Sequence[str]) -> Parsed:
        """Parse a command line by the program's own rules.

        A leading program path is skipped. If a preset and values that it sets are both given, the
        preset is expanded. Raises SpaceError if the program would reject the command line, or would
        silently misread a word as a number.
        """
        parsed = commandline.parse(self, argv)
        values = values_in_effect.expand_preset(self, parsed.values, self.preset_fields)
        return Parsed(values, parsed.rest)

    def laid_over(
        self, initial: Mapping[str, Value], values: Mapping[str, Value]
    ) -> dict[str, Value]:
        """The configuration ``initial`` with ``values`` in place of its own.

        A preset in it is expanded if ``values`` contains one of the values that it sets,
        since the program accepts both together.
        """
        return values_in_effect.laid_over(self, initial, values)

    def lines(self, values: Mapping[str, Value]) -> list[str]:
        """The output of ``render`` as lines to read or type; empty if nothing is set."""
        return commandline.lines(self, values)

    def supplies(
        self, values: Mapping[str, Value], facts: Mapping[str, int] | None = None
    ) -> dict[str, int]:
        """The facts for the following spaces once ``values`` are in effect in this one.

        For example, a raised kernel limit permits larger values in a program's space.
        """
        result = dict(facts or {})
        for name, value in values.items():
            fact = self[name].supplies
            if fact and isinstance(value, int):
                result[fact] = int(value)
        return result

    def violations(
        self,
        values: Mapping[str, Value],
        facts: Mapping[str, int] | None = None,
        initial: Mapping[str, Value] | None = None,
    ) -> list[str]:
        """The reasons why ``values`` is not a valid configuration, as sentences; empty if valid.

        ``initial``: a configuration that is in use, whose own violations are not repeated.
        """
        return values_in_effect.violations(self, values, facts, initial)

    def impossible(self, values: Mapping[str, Value]) -> list[str]:
        """The reasons why ``values`` is invalid on every host, as sentences; otherwise empty."""
        return values_in_effect.impossible(self, values)

    def effective(
        self, values: Mapping[str, Value], facts: Mapping[str, int] | None = None
    ) -> dict[str, Expected]:
        """What reading back should show for each parameter set by ``values`` or by its preset.

        Parameters that the program does not report are omitted. Raises SpaceError if there is no
        telling because of a value that the program does not accept.
        """
        with self._naming_the_value(values):
            return values_in_effect.effective(self, values, facts)

    def in_effect(
        self, values: Mapping[str, Value], facts: Mapping[str, int] | None = None
    ) -> dict[str, Value]:
        """The value in effect of each parameter once ``values`` are set: set, clamped or default.

        Unset parameters without a fixed default are omitted. Raises SpaceError as ``effective``.
        """
        with self._naming_the_value(values):
            env, _ = values_in_effect.settle(self, values, facts)
        return {p.name: env[p.name] for p in self.parameters if p.name in env}

    def fit(
        self,
        values: Mapping[str, Value],
        facts: Mapping[str, int] | None = None,
        initial: Mapping[str, Value] | None = None,
    ) -> dict[str, Value]:
        """The nearest valid configuration: values are moved into their limits, and those whose
        condition fails are dropped.

        A valid configuration is unchanged. ``initial``: the original configuration. Its preset is
        expanded if values that it sets are given besides, and its values that are not searched stay
        where they are outside their limits already. Raises SpaceError if the values fixed by
        narrowing exclude every configuration on this host.
        """
        return fitting.Fitter(self, facts, initial or {}).fit(values)

    def memory_bytes(
        self, values: Mapping[str, Value], facts: Mapping[str, int] | None = None
    ) -> int:
        """Estimated memory that the program uses with ``values``, in bytes.

        Raises SpaceError as ``effective``.
        """
        with self._naming_the_value(values):
            env, _ = values_in_effect.settle(self, values, facts)
            return values_in_effect.memory_estimate(self, env)

    @contextmanager
    def _naming_the_value(self, values: Mapping[str, Value]) -> Iterator[None]:
        """Name the impossible values, if any, where an expression has no value because of them."""
        try:
            yield
        except ExpressionError as error:
            if not (why := self.impossible(values)):
                raise
            raise SpaceError(f"{self.name}: {'; '.join(why)}") from error

    def searching(self, names: Collection[str]) -> Space:
        """The space with these parameters also searched, regardless of their risk."""
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
        """A space that searches fewer parameters, or others than by default.

        ``only``: search only these; ``also``: search these in addition to the default ones;
        ``fix``: always set these values; ``ranges``: ``[low, high]`` or a list of words;
        ``allow_risk``: risk classes that may be searched. Raises SpaceError for the first invalid
        request; this space is never modified.
        """
        return narrowing.narrow(self, only, also, fix or {}, ranges or {}, allow_risk)
