"""Which configurations of earlier campaigns a campaign may try itself. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from search_spaces import Chance, Kind, Parameter, draw
from tuner.model import Configuration, Value
from tuner.propose.encoding import Tunable


def is_possible(configuration: Configuration, tunables: Mapping[str, Tunable]) -> bool:
    """Whether every value is still one of its space, which may have changed since."""
    return not any(
        tunable.space.impossible(configuration.part(part)) for part, tunable in tunables.items()
    )


def is_allowed(configuration: Configuration, tunables: Mapping[str, Tunable]) -> bool:
    """Whether it could have been proposed here: everything that differs from the baseline is
    searched, with a value in its range, fixed values are set, and it fits the hosts.
    """
    return all(_is_allowed(configuration.part(part), tunable) for part, tunable in tunables.items())


def _is_allowed(values: Mapping[str, Value], tunable: Tunable) -> bool:
    space, initial = tunable.space, tunable.baseline
    # Its preset may be replaced by the values that it sets.
    base = draw(space, Chance(0, 0.0), tunable.facts, initial)
    companions = {
        name: value
        for setting in values
        for name, value in (space[setting].accompanied_by or {}).items()
    }
    for parameter in space.parameters:
        name, value = parameter.name, values.get(parameter.name)
        if parameter.fixed is not None:
            if value != parameter.fixed:
                return False
        elif value in (initial.get(name), base.get(name), companions.get(name)):
            continue
        elif not parameter.searched or not _in_range(parameter, value):
            return False
    return not space.violations(values, tunable.facts, initial)


def _in_range(parameter: Parameter, value: Value | None) -> bool:
    if parameter.kind is Kind.CATEGORICAL:
        return value is None or value in parameter.candidates
    if isinstance(value, int) and parameter.kind.numeric:
        return parameter.low <= value <= parameter.high
    return True
