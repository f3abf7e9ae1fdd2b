"""How to make a configuration valid by changing as little as possible."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import partial

from search_spaces.expressions import Value
from search_spaces.model import Constraint, Kind, Parameter, SpaceError
from search_spaces.space_content import SpaceContent
from search_spaces.values_in_effect import (
    broken_constraints,
    default,
    expand_preset,
    in_effect,
    limits,
    settle,
    type_problem,
)


@dataclass(frozen=True, slots=True)
class Before:
    """The original configuration on its host.

    ``values``: set by it or by its preset. ``outside``: those that are not searched and are outside
    their limits; they stay so. ``broken``: the constraints that the values that are not searched
    break on their own too.
    """

    values: Mapping[str, Value] = field(default_factory=dict)
    outside: frozenset[str] = frozenset()
    broken: tuple[Constraint, ...] = ()

    def has(self, parameter: Parameter, value: Value | None) -> bool:
        """Whether the value is the original one, not one that a campaign fixes."""
        same = value is not None and value == self.values.get(parameter.name)
        return same and parameter.fixed is None


def before(
    space: SpaceContent, initial: Mapping[str, Value], facts: Mapping[str, int] | None
) -> Before:
    """What is known about the configuration ``initial``."""
    values = {name: value for name, value in initial.items() if name in space.by_name}
    if not values:
        return Before()
    env, _ = settle(space, values, facts)
    own = {
        name: value
        for name, value in values.items()
        if not space[name].searched and space[name].fixed is None
    }
    outside = frozenset(name for name in own if clip(space[name], own[name], env) != own[name])
    alone, _ = settle(space, own, facts)
    broken = broken_constraints(space, values, env)
    broken_alone = tuple(c for c in broken_constraints(space, own, alone) if c in broken)
    fields = space.preset_fields if space.preset_parameter in values else ()
    by_preset = {name: env[name] for name in fields if name in env}
    return Before(by_preset | values, outside, broken_alone)


def clip(parameter: Parameter, value: Value, env: Mapping[str, Value]) -> Value | None:
    """The nearest valid value; None if no value is valid."""
    if not parameter.kind.numeric or isinstance(value, str):
        return value
    if value == parameter.same_as_unset:
        return value
    low, high = limits(parameter, env)
    if low is not None and high is not None and low > high:
        return None
    if (low is None or value >= low) and (high is None or value <= high):
        return value
    moved = low if low is not None and value < low else high
    assert moved is not None
    if parameter.kind is not Kind.POWER_OF_TWO or moved < 1:
        return moved
    below = 1 << (moved.bit_length() - 1)
    power = below if below == moved or moved == high else below * 2
    fits = (low is None or power >= low) and (high is None or power <= high)
    return power if fits else moved


def _moved(parameter: Parameter, value: Value, env: Mapping[str, Value]) -> Value | None:
    """The nearest valid value; None if there is none, or none in a range that is strict."""
    moved = clip(parameter, value, env)
    if moved == value or moved is None or not parameter.strict_range:
        return moved
    return moved if parameter.low <= int(moved) <= parameter.high else None


def walk(
    space: SpaceContent,
    facts: Mapping[str, int] | None,
    propose: Callable[[Parameter, Mapping[str, Value]], Value | None],
    original: Before,
) -> tuple[dict[str, Value], dict[str, Value]]:
    """Visit the parameters in dependency order and move each proposed value into its limits.

    ``propose`` is called for each parameter whose condition holds, with the values in effect so
    far; if it returns None, the parameter is left unset. An original value that is proposed again
    is no change, so nothing is set with it. Returns the configuration and its values in effect.
    """
    env = space.assume(facts)
    values: dict[str, Value] = {}
    companions: dict[str, Value] = {}
    for parameter in space.order:
        name, value = parameter.name, parameter.fixed
        if parameter.only_if is None or parameter.only_if.expression(env):
            if value is None:
                value = propose(parameter, env)
                if value is None:
                    value = companions.get(name)
            same = original.has(parameter, value)
            stays = parameter.fixed is not None or (same and name in original.outside)
            if value is not None and not stays:
                value = _moved(parameter, value, env)
            if value is not None:
                values[name] = value
                effect: Value | None = value
                # Only a value that was not moved may be one that the program clamps or ignores.
                if stays or value == parameter.same_as_unset:
                    effect, _ = in_effect(space, parameter, value, env)
                if effect is not None:
                    env[name] = effect
                if parameter.accompanied_by and not same:
                    companions.update(parameter.accompanied_by)
                continue
        unset = default(space, parameter, env)
        if unset is not None:
            env[name] = unset
    return values, env


class Fitter:
    """Moves configurations of a space into its limits on one host.

    ``facts``: of the host; ``initial``: the original configuration. What follows from them is
    computed once.
    """

    def __init__(
        self, space: SpaceContent, facts: Mapping[str, int] | None, initial: Mapping[str, Value]
    ) -> None:
        self._space, self._facts, self._initial = space, facts, initial
        self._original = before(space, initial, facts)

    def fit(self, values: Mapping[str, Value]) -> dict[str, Value]:
        """See Space.fit."""
        space = self._space
        for name, value in values.items():
            wrong = type_problem(space[name], value)
            if wrong:
                raise SpaceError(f"{space.name}: {name}: {wrong}")
        request = _with_preset_expanded(space, values, self._initial)
        proposal, env = walk(space, self._facts, lambda p, _: request.get(p.name), self._original)
        return satisfy(space, proposal, env, self._facts, self._original)


def _with_preset_expanded(
    space: SpaceContent, values: Mapping[str, Value], initial: Mapping[str, Value]
) -> dict[str, Value]:
    """``values`` with the preset of ``initial`` expanded if one of its values is given or fixed."""
    request, preset = dict(values), space.preset_parameter
    if preset not in initial or request.get(preset) != initial[preset]:
        return request
    for name in space.preset_fields:
        if (fixed := space.by_name[name].fixed) is not None:
            request[name] = fixed
    return expand_preset(space, request, space.preset_fields)


def satisfy(
    space: SpaceContent,
    values: dict[str, Value],
    env: dict[str, Value],
    facts: Mapping[str, int] | None,
    original: Before,
) -> dict[str, Value]:
    """Satisfy the whole-configuration constraints by changing the parameters they name as little as
    possible, original values that are not searched last of all. A constraint that these values
    break on their own is ignored, since the search cannot satisfy it. Raises SpaceError if no
    configuration fits.
    """

    def newly_broken(configuration: Mapping[str, Value], env: dict[str, Value]) -> list[Constraint]:
        broken = broken_constraints(space, configuration, env)
        return [constraint for constraint in broken if constraint not in original.broken]

    def refit(proposal: Mapping[str, Value]) -> tuple[dict[str, Value], dict[str, Value]]:
        return walk(space, facts, lambda p, _: proposal.get(p.name), original)

    def holds(constraint: Constraint, proposal: Mapping[str, Value]) -> bool:
        configuration, then = refit(proposal)
        return constraint not in broken_constraints(space, configuration, then)

    for _ in range(len(space.constraints) + 1):
        failing = newly_broken(values, env)
        if not failing:
            return values
        for constraint in failing:
            names = [*constraint.lower, *constraint.unset]
            stay = [n for n in names if _stays(space.by_name[n], values.get(n), original)]
            fewer = _give_way(space, values, constraint, holds, stay)
            if stay and not holds(constraint, fewer):
                fewer = _give_way(space, values, constraint, holds, ())
            values = fewer
        values, env = refit(values)
    values, env = refit({})
    failing = newly_broken(values, env)
    if failing:
        raise SpaceError(f"{space.name}: no configuration fits this host: {failing[0].why}")
    return values


def _stays(parameter: Parameter, value: Value | None, original: Before) -> bool:
    return not parameter.searched and original.has(parameter, value)


def _give_way(
    space: SpaceContent,
    values: dict[str, Value],
    constraint: Constraint,
    holds: Callable[[Constraint, Mapping[str, Value]], bool],
    stay: Collection[str],
) -> dict[str, Value]:
    """Lower, then unset the parameters named by the constraint, except those that ``stay``, until
    it is satisfied.
    """
    proposal = dict(values)
    for name in constraint.lower:
        parameter, value = space.by_name[name], proposal.get(name)
        if parameter.fixed is not None or not isinstance(value, int) or value <= parameter.low:
            continue
        if name in stay:
            continue
        proposal[name] = parameter.low
        if holds(constraint, proposal):
            return _largest(parameter, value, proposal, partial(holds, constraint))
    for name in (*constraint.lower, *constraint.unset):
        if name in proposal and name not in stay and space.by_name[name].fixed is None:
            del proposal[name]
            if holds(constraint, proposal):
                break
    return proposal


def _largest(
    parameter: Parameter,
    value: int,
    proposal: dict[str, Value],
    good: Callable[[Mapping[str, Value]], bool],
) -> dict[str, Value]:
    """Binary search for the largest good number below ``value``; ``parameter.low`` is good."""
    in_powers = parameter.kind is Kind.POWER_OF_TWO
    low, high = parameter.low, value
    if in_powers:
        low, high = low.bit_length() - 1, (value - 1).bit_length()
    best = proposal
    while high - low > 1:
        middle = (low + high) // 2
        candidate = {**proposal, parameter.name: 1 << middle if in_powers else middle}
        if good(candidate):
            low, best = middle, candidate
        else:
            high = middle
    return best
