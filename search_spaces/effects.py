"""Effects of a configuration: values in effect, violations, and how to make it valid."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import ceil, floor

from search_spaces.commandline import line_length
from search_spaces.expressions import Expression, Value
from search_spaces.model import Constraint, Expected, Kind, Outside, Parameter, SpaceError
from search_spaces.space_file import Catalogue

#: Names available only in whole-configuration constraints: bytes, and characters of the options.
MEMORY_ESTIMATE = "memory_estimate"
COMMAND_LENGTH = "command_length"

#: Used if no preset is chosen.
NO_PRESET = "none"


#: Values must be within [-2**63, 2**63).
_BEYOND = 1 << 63


def default(space: Catalogue, parameter: Parameter, env: Mapping[str, Value]) -> Value | None:
    """Default of an unset parameter, given the values determined so far; None if not fixed."""
    defaults = parameter.defaults
    if not defaults:
        return None
    preset = env.get(space.preset_parameter, NO_PRESET) if space.preset_parameter else NO_PRESET
    entry = defaults.get(str(preset), defaults.get(NO_PRESET))
    if not isinstance(entry, Expression):
        return entry
    result = entry(env)
    return result if isinstance(result, (bool, str)) else int(result)


def limits(parameter: Parameter, env: Mapping[str, Value]) -> tuple[int | None, int | None]:
    """Inclusive limits of a numeric parameter, given ``env``; None means no limit."""
    low, high = parameter.hard.low, parameter.hard.high
    if parameter.at_least is not None:
        least = ceil(parameter.at_least.expression.number(env))
        low = least if low is None else max(low, least)
    if parameter.at_most is not None:
        most = floor(parameter.at_most.expression.number(env))
        high = most if high is None else min(high, most)
    return low, high


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


def _in_effect(
    space: Catalogue, parameter: Parameter, value: int, env: Mapping[str, Value]
) -> tuple[Value | None, str]:
    """The value in effect for a requested number, and the reason if it was clamped."""
    hard = parameter.hard
    if value not in hard:
        bounds = hard.text
        if hard.outside is Outside.IGNORES:
            return default(space, parameter, env), f"ignored, outside {bounds}"
        if hard.outside is Outside.CLAMPS:
            edge = hard.low if hard.low is not None and value < hard.low else hard.high
            assert edge is not None
            moved, why = _in_effect(space, parameter, edge, env)
            return moved, why or f"clamped to {bounds}"
    for bound, pick in ((parameter.at_least, max), (parameter.at_most, min)):
        if bound is not None and bound.clamped:
            number = bound.expression.number(env)
            edge = pick(value, ceil(number) if pick is max else floor(number))
            if edge != value:
                return edge, bound.why
    return value, ""


def settle(
    space: Catalogue, values: Mapping[str, Value], facts: Mapping[str, int] | None = None
) -> tuple[dict[str, Value], dict[str, str]]:
    """Return the facts with each parameter's value in effect (set, clamped or default), and the
    reasons for clamped ones.

    Unset parameters without a fixed default have no entry.
    """
    env = space.assume(facts)
    clamps: dict[str, str] = {}
    for parameter in space.order:
        value: Value | None = values.get(parameter.name)
        if value is None:
            value = default(space, parameter, env)
        elif parameter.kind.numeric and not isinstance(value, str):
            value, why = _in_effect(space, parameter, value, env)
            if why:
                clamps[parameter.name] = why
        if value is not None:
            env[parameter.name] = value
    return env, clamps


def expand_preset(
    space: Catalogue, values: dict[str, Value], fields: Sequence[str]
) -> dict[str, Value]:
    """Replace a preset by the values it sets, if ``values`` contains any of ``fields``."""
    if space.preset_parameter not in values or not any(name in values for name in fields):
        return values
    env, _ = settle(space, values)
    expanded = {name: env[name] for name in space.preset_fields if name in env}
    merged = {**expanded, **values}
    del merged[space.preset_parameter]
    return merged


def memory_estimate(space: Catalogue, env: Mapping[str, Value]) -> int:
    """Sum of the parameters' memory costs in bytes, for the values in effect."""
    total = 0.0
    for parameter in space.parameters:
        if parameter.memory is not None and parameter.name in env:
            total += parameter.memory.number(env)
    return int(total)


def broken_constraints(
    space: Catalogue, values: Mapping[str, Value], env: dict[str, Value]
) -> tuple[Constraint, ...]:
    """The violated whole-configuration constraints."""
    if not space.constraints:
        return ()
    env[MEMORY_ESTIMATE] = memory_estimate(space, env)
    env[COMMAND_LENGTH] = line_length(space, values)
    return tuple(c for c in space.constraints if not c.rule(env))


def type_problem(parameter: Parameter, value: object) -> str:
    """Describe a wrong type or an invalid word; empty if the value is well-formed."""
    if parameter.kind.numeric:
        if not isinstance(value, int) or isinstance(value, bool):
            return f"{value!r} is not a whole number"
        in_range = -_BEYOND <= value < _BEYOND
        return "" if in_range else "no program accepts so large a number"
    if parameter.kind is Kind.BOOLEAN:
        return "" if isinstance(value, bool) else f"{value!r} is not true or false"
    good = isinstance(value, str) and value in parameter.choices
    return "" if good else f"{value!r} is not one of {', '.join(parameter.choices)}"


def safe_problem(parameter: Parameter) -> str:
    """Describe safe values that the parameter cannot have; empty if there are none."""
    safe = parameter.safe
    for value in safe:
        if problem := type_problem(parameter, value):
            return problem
    if parameter.kind.numeric and safe and (len(safe) != 2 or int(safe[0]) > int(safe[1])):
        return f"{list(safe)!r} is not [low, high]"
    return ""


def violations(
    space: Catalogue, values: Mapping[str, Value], facts: Mapping[str, int] | None
) -> list[str]:
    """See Space.violations."""
    if messages := _ill_formed(space, values):
        return messages
    env, _ = settle(space, values, facts)
    for parameter in space.order:
        if parameter.name in values:
            messages += _violations_of(parameter, values[parameter.name], env)
    for constraint in broken_constraints(space, values, env):
        messages.append(f"{constraint.why} ({constraint.rule.text} does not hold)")
    return messages


def impossible(space: Catalogue, values: Mapping[str, Value]) -> list[str]:
    """See Space.impossible."""
    if messages := _ill_formed(space, values):
        return messages
    return [
        message for name, value in values.items() for message in _beyond_hard(space[name], value)
    ]


def _ill_formed(space: Catalogue, values: Mapping[str, Value]) -> list[str]:
    """Messages about unknown parameters and values of the wrong type."""
    messages: list[str] = []
    for name, value in values.items():
        try:
            wrong = type_problem(space[name], value)
        except SpaceError as error:
            messages.append(str(error))
            continue
        if wrong:
            messages.append(f"{name}: {wrong}")
    return messages


def _beyond_hard(parameter: Parameter, value: Value) -> list[str]:
    if not parameter.kind.numeric or isinstance(value, str):
        return []
    name, hard = parameter.name, parameter.hard
    messages: list[str] = []
    if hard.low is not None and value < hard.low:
        messages.append(f"{name}: {value} is below {hard.low}, which the program {hard.outside}")
    if hard.high is not None and value > hard.high:
        messages.append(f"{name}: {value} is above {hard.high}, which the program {hard.outside}")
    return messages


def _violations_of(parameter: Parameter, value: Value, env: Mapping[str, Value]) -> list[str]:
    name, messages = parameter.name, []
    if parameter.only_if is not None and not parameter.only_if.expression(env):
        messages.append(f"{name} may not be set: {parameter.only_if.why}")
    if not parameter.kind.numeric or isinstance(value, str):
        return messages
    messages += _beyond_hard(parameter, value)
    if (bound := parameter.at_least) is not None:
        least = ceil(bound.expression.number(env))
        if value < least:
            messages.append(
                f"{name}: {value} is below {least} ({bound.expression.text}): {bound.why}"
            )
    if (bound := parameter.at_most) is not None:
        most = floor(bound.expression.number(env))
        if value > most:
            messages.append(
                f"{name}: {value} is above {most} ({bound.expression.text}): {bound.why}"
            )
    return messages


def effective(
    space: Catalogue, values: Mapping[str, Value], facts: Mapping[str, int] | None
) -> dict[str, Expected]:
    """See Space.effective."""
    env, clamps = settle(space, values, facts)
    by_preset = space.preset_fields if space.preset_parameter in values else ()
    expected: dict[str, Expected] = {}
    for parameter in space.parameters:
        name, read_back = parameter.name, parameter.read_back
        if read_back is None or name not in env or not (name in values or name in by_preset):
            continue
        reading = env[name] if read_back.shows is None else read_back.shows(env)
        requested = values.get(name, env[name])
        why = clamps.get(name, "")
        expected[name] = Expected(read_back.key, reading, env[name], requested, bool(why), why)
    return expected


def walk(
    space: Catalogue,
    facts: Mapping[str, int] | None,
    propose: Callable[[Parameter, Mapping[str, Value]], Value | None],
) -> tuple[dict[str, Value], dict[str, Value]]:
    """Visit the parameters in dependency order and move each proposed value into its limits.

    ``propose`` is called for each parameter whose condition holds, with the values in effect so
    far; if it returns None, the parameter is left unset. Returns the configuration and its values
    in effect.
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
                if parameter.accompanied_by:
                    companions.update(parameter.accompanied_by)
                continue
        unset = default(space, parameter, env)
        if unset is not None:
            env[name] = unset
    return values, env


def fit(
    space: Catalogue, values: Mapping[str, Value], facts: Mapping[str, int] | None
) -> dict[str, Value]:
    """See Space.fit."""
    for name, value in values.items():
        wrong = type_problem(space[name], value)
        if wrong:
            raise SpaceError(f"{space.name}: {name}: {wrong}")
    configuration, env = walk(space, facts, lambda parameter, _: values.get(parameter.name))
    return satisfy(space, configuration, env, facts)


def satisfy(
    space: Catalogue,
    values: dict[str, Value],
    env: dict[str, Value],
    facts: Mapping[str, int] | None,
) -> dict[str, Value]:
    """Satisfy the whole-configuration constraints by changing the parameters they name as little as
    possible. Raises SpaceError if no configuration fits.
    """

    def refit(proposal: Mapping[str, Value]) -> tuple[dict[str, Value], dict[str, Value]]:
        return walk(space, facts, lambda parameter, _: proposal.get(parameter.name))

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
