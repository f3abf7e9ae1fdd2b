"""Values of a configuration: limits, defaults, what is in effect, and violations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, floor

from search_spaces.commandline import line_length
from search_spaces.expressions import Expression, Value
from search_spaces.model import Bound, Constraint, Expected, Kind, Outside, Parameter, SpaceError
from search_spaces.space_content import SpaceContent

#: Names available only in whole-configuration constraints: bytes, and characters of the options.
MEMORY_ESTIMATE = "memory_estimate"
COMMAND_LENGTH = "command_length"

#: Used if no preset is chosen.
NO_PRESET = "none"


#: Values must be within [-2**63, 2**63).
_BEYOND = 1 << 63

#: The rule that a special value outside the hard limits breaks: it is not a number of the unit.
_SPECIAL = "special"


def default(space: SpaceContent, parameter: Parameter, env: Mapping[str, Value]) -> Value | None:
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


def in_effect(
    space: SpaceContent, parameter: Parameter, value: Value, env: Mapping[str, Value]
) -> tuple[Value | None, str]:
    """The value in effect for a requested one, and the reason if it is another. Only numbers are
    clamped.
    """
    if not parameter.kind.numeric or isinstance(value, str):
        return value, ""
    if value == parameter.same_as_unset:
        return default(space, parameter, env), parameter.meaning(value) or "the same as unset"
    hard = parameter.hard
    if value not in hard and not parameter.meaning(value):
        bounds = hard.text
        if hard.outside is Outside.IGNORES:
            return default(space, parameter, env), f"ignored, outside {bounds}"
        if hard.outside is Outside.CLAMPS:
            edge = hard.low if hard.low is not None and value < hard.low else hard.high
            assert edge is not None
            moved, why = in_effect(space, parameter, edge, env)
            return moved, why or f"clamped to {bounds}"
    for bound, pick in ((parameter.at_least, max), (parameter.at_most, min)):
        if bound is not None and bound.clamped:
            number = bound.expression.number(env)
            edge = pick(value, ceil(number) if pick is max else floor(number))
            if edge != value:
                return edge, bound.why
    return value, ""


def settle(
    space: SpaceContent, values: Mapping[str, Value], facts: Mapping[str, int] | None = None
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
        else:
            value, why = in_effect(space, parameter, value, env)
            if why:
                clamps[parameter.name] = why
        if value is not None:
            env[parameter.name] = value
    return env, clamps


def expand_preset(
    space: SpaceContent, values: dict[str, Value], fields: Sequence[str]
) -> dict[str, Value]:
    """Replace a preset by the values it sets, if ``values`` contains any of ``fields``."""
    if space.preset_parameter not in values or not any(name in values for name in fields):
        return values
    env, _ = settle(space, values)
    expanded = {name: env[name] for name in space.preset_fields if name in env}
    merged = {**expanded, **values}
    del merged[space.preset_parameter]
    return merged


def laid_over(
    space: SpaceContent, initial: Mapping[str, Value], values: Mapping[str, Value]
) -> dict[str, Value]:
    """See Space.laid_over."""
    both = {**initial, **values}
    if space.preset_parameter in values or _ill_formed(space, both):
        return both
    return expand_preset(space, both, [name for name in space.preset_fields if name in values])


def memory_estimate(space: SpaceContent, env: Mapping[str, Value]) -> int:
    """Sum of the parameters' memory costs in bytes, for the values in effect."""
    total = 0.0
    for parameter in space.parameters:
        if parameter.memory is not None and parameter.name in env:
            total += parameter.memory.number(env)
    return int(total)


def broken_constraints(
    space: SpaceContent, values: Mapping[str, Value], env: dict[str, Value]
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
    space: SpaceContent,
    values: Mapping[str, Value],
    facts: Mapping[str, int] | None,
    initial: Mapping[str, Value] | None = None,
) -> list[str]:
    """See Space.violations."""
    if messages := _ill_formed(space, values):
        return messages
    for name, number in values.items():
        if space[name].hard.outside is Outside.REFUSES and (initial or {}).get(name) != number:
            messages += _beyond_hard(space[name], number).values()
    if messages:  # The program does not start, so nothing is in effect to compute limits from.
        return messages
    env, _ = settle(space, values, facts)
    env_before = env if initial is None else settle(space, initial, facts)[0]
    for parameter in space.order:
        value = values.get(parameter.name)
        if value is None:
            continue
        same = initial is not None and value == initial.get(parameter.name)
        before = _violations_of(parameter, value, env_before) if same else {}
        rules = _violations_of(parameter, value, env).items()
        messages += [message for rule, message in rules if rule not in before]
    broken_before = () if initial is None else broken_constraints(space, initial, env_before)
    for constraint in broken_constraints(space, values, env):
        if constraint not in broken_before:
            messages.append(f"{constraint.why} ({constraint.rule.text} does not hold)")
    return messages


def check_values(space: SpaceContent) -> None:
    """Raise ExpressionError if an expression has no value where nothing is set."""
    violations(space, {}, None)
    env, _ = settle(space, {})
    for parameter in space.order:
        if parameter.only_if is None or parameter.only_if.expression(env):
            limits(parameter, env)


def impossible(space: SpaceContent, values: Mapping[str, Value]) -> list[str]:
    """See Space.impossible."""
    if messages := _ill_formed(space, values):
        return messages
    return [
        message
        for name, value in values.items()
        for message in _beyond_hard(space[name], value).values()
    ]


def _ill_formed(space: SpaceContent, values: Mapping[str, Value]) -> list[str]:
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


def _beyond_hard(parameter: Parameter, value: Value) -> dict[str, str]:
    """A message for each hard limit that the value exceeds, or what it means if it is special."""
    if not parameter.kind.numeric or isinstance(value, str):
        return {}
    name, hard = parameter.name, parameter.hard
    messages: dict[str, str] = {}
    if hard.low is not None and value < hard.low:
        messages["low"] = f"{name}: {value} is below {hard.low}, which the program {hard.outside}"
    if hard.high is not None and value > hard.high:
        messages["high"] = f"{name}: {value} is above {hard.high}, which the program {hard.outside}"
    if messages and (meaning := parameter.meaning(value)):
        return {_SPECIAL: f"{name}: {value} is special: {meaning}"}
    return messages


def _violations_of(parameter: Parameter, value: Value, env: Mapping[str, Value]) -> dict[str, str]:
    """A message for each rule of the parameter that the value breaks."""
    name, messages = parameter.name, _beyond_hard(parameter, value)
    if parameter.only_if is not None and not parameter.only_if.expression(env):
        why = f"{name} may not be set: {parameter.only_if.why}"
        messages = {"only_if": why, **messages}
    if not parameter.kind.numeric or isinstance(value, str) or _SPECIAL in messages:
        return messages
    if (bound := parameter.at_least) is not None:
        least = ceil(bound.expression.number(env))
        if value < least:
            limit = _limit(least, bound)
            messages["at_least"] = f"{name}: {value} is below {limit}: {bound.why}"
    if (bound := parameter.at_most) is not None:
        most = floor(bound.expression.number(env))
        if value > most:
            messages["at_most"] = f"{name}: {value} is above {_limit(most, bound)}: {bound.why}"
    return messages


def _limit(number: int, bound: Bound) -> str:
    """Return the number, and the expression that it was computed from, if it was."""
    text = bound.expression.text
    return str(number) if text == str(number) else f"{number} ({text})"


def effective(
    space: SpaceContent, values: Mapping[str, Value], facts: Mapping[str, int] | None
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
