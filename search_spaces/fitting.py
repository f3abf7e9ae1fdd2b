"""How to make a configuration valid by changing as little as possible."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from search_spaces.effects import (
    broken_constraints,
    default,
    expand_preset,
    limits,
    settle,
    type_problem,
)
from search_spaces.expressions import Value
from search_spaces.model import Constraint, Kind, Parameter, SpaceError
from search_spaces.space_file import Catalogue


def clip(parameter: Parameter, value: Value, env: Mapping[str, Value]) -> Value | None:
    """The nearest valid value; None if no value is valid."""
    if not parameter.kind.numeric or isinstance(value, str):
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


def walk(
    space: Catalogue,
    facts: Mapping[str, int] | None,
    propose: Callable[[Parameter, Mapping[str, Value]], Value | None],
    original: Mapping[str, Value],
) -> tuple[dict[str, Value], dict[str, Value]]:
    """Visit the parameters in dependency order and move each proposed value into its limits.

    ``propose`` is called for each parameter whose condition holds, with the values in effect so
    far; if it returns None, the parameter is left unset. ``original``: the values that were in
    effect before; one that is proposed again is no change, so nothing is set with it. Returns the
    configuration and its values in effect.
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
                if value is not None:
                    value = clip(parameter, value, env)
            if value is not None:
                values[name] = env[name] = value
                same = parameter.fixed is None and value == original.get(name)
                if parameter.accompanied_by and not same:
                    companions.update(parameter.accompanied_by)
                continue
        unset = default(space, parameter, env)
        if unset is not None:
            env[name] = unset
    return values, env


def fit(
    space: Catalogue,
    values: Mapping[str, Value],
    facts: Mapping[str, int] | None,
    initial: Mapping[str, Value],
) -> dict[str, Value]:
    """See Space.fit."""
    for name, value in values.items():
        wrong = type_problem(space[name], value)
        if wrong:
            raise SpaceError(f"{space.name}: {name}: {wrong}")
    request = _with_preset_expanded(space, values, initial)
    original = _in_effect_before(space, initial)
    configuration, env = walk(space, facts, lambda p, _: request.get(p.name), original)
    return satisfy(space, configuration, env, facts, original)


def _in_effect_before(space: Catalogue, initial: Mapping[str, Value]) -> dict[str, Value]:
    """The values of ``initial``, and those that its preset sets."""
    if space.preset_parameter not in initial:
        return dict(initial)
    env, _ = settle(space, initial)
    return {name: env[name] for name in space.preset_fields if name in env} | dict(initial)


def _with_preset_expanded(
    space: Catalogue, values: Mapping[str, Value], initial: Mapping[str, Value]
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
    space: Catalogue,
    values: dict[str, Value],
    env: dict[str, Value],
    facts: Mapping[str, int] | None,
    original: Mapping[str, Value],
) -> dict[str, Value]:
    """Satisfy the whole-configuration constraints by changing the parameters they name as little as
    possible. ``original``: see ``walk``. Raises SpaceError if no configuration fits.
    """

    def refit(proposal: Mapping[str, Value]) -> tuple[dict[str, Value], dict[str, Value]]:
        return walk(space, facts, lambda p, _: proposal.get(p.name), original)

    def holds(constraint: Constraint, proposal: Mapping[str, Value]) -> bool:
        configuration, then = refit(proposal)
        return constraint not in broken_constraints(space, configuration, then)

    for _ in range(len(space.constraints) + 1):
        failing = broken_constraints(space, values, env)
        if not failing:
            return values
        for constraint in failing:
            values = _give_way(space, values, constraint, holds)
        values, env = refit(values)
    values, env = refit({})
    failing = broken_constraints(space, values, env)
    if failing:
        raise SpaceError(f"{space.name}: no configuration fits this host: {failing[0].why}")
    return values


def _give_way(
    space: Catalogue,
    values: dict[str, Value],
    constraint: Constraint,
    holds: Callable[[Constraint, Mapping[str, Value]], bool],
) -> dict[str, Value]:
    """Lower, then unset the parameters named by the constraint until it is satisfied."""
    proposal = dict(values)
    for name in constraint.lower:
        parameter, value = space.by_name[name], proposal.get(name)
        if parameter.fixed is not None or not isinstance(value, int) or value <= parameter.low:
            continue
        proposal[name] = parameter.low
        if holds(constraint, proposal):
            return _largest(parameter, value, proposal, partial(holds, constraint))
    for name in (*constraint.lower, *constraint.unset):
        if name in proposal and space.by_name[name].fixed is None:
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
