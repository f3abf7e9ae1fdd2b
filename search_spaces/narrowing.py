"""Narrowing of a space: search fewer parameters, or others than by default."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from search_spaces.expressions import Value
from search_spaces.model import Kind, Outside, Parameter, Risk, Role, SpaceError, nearest
from search_spaces.space_content import SpaceContent
from search_spaces.values_in_effect import settle, type_problem

S = TypeVar("S", bound=SpaceContent)


def narrow(
    space: S,
    only: Collection[str] | None,
    also: Collection[str],
    fix: Mapping[str, Value],
    ranges: Mapping[str, Sequence[Value]],
    allow_risk: Collection[str | Risk],
) -> S:
    """See Space.narrow."""
    risks = {Risk.PERFORMANCE, *(_risk(space, word) for word in allow_risk)}
    for word, names in (("only", only or ()), ("also", also), ("fix", fix), ("range", ranges)):
        if isinstance(names, str):
            raise SpaceError(f"{space.name}: {word}: {names!r} is a word, not a list of them")
        for name in names:
            _check_name(space, word, name)
    for name in fix:
        for word, names in (("only", only or ()), ("also", also), ("range", ranges)):
            if name in names:
                raise SpaceError(f"{space.name}: fix: {name} is also in {word}")
    parameters = {p.name: p for p in space.parameters}
    for name in [*(only or ()), *also, *fix]:
        if parameters[name].risk not in risks:
            risk = parameters[name].risk
            raise SpaceError(
                f"{space.name}: {name} has the risk class {risk}: add {risk} to allow_risk"
            )
    for name, bounds in ranges.items():
        parameters[name] = _with_range(space, parameters[name], bounds)
    for name, parameter in parameters.items():
        is_searched = parameter.searched
        if only is not None:
            is_searched = name in only
        elif parameter.risk is not Risk.PERFORMANCE and parameter.risk in risks:
            is_searched = parameter.role is Role.SEARCHED
        parameters[name] = replace(parameter, searched=is_searched or name in also)
    for name, value in fix.items():
        _check_fixed(space, parameters[name], value)
        parameters[name] = replace(parameters[name], searched=False, fixed=value)
    _pin_conditions(space, parameters, fix)
    for name in ranges:
        if not parameters[name].searched:
            raise SpaceError(f"{space.name}: range: {name} is not searched; name it in also")
    return with_parameters(space, parameters)


def with_parameters(space: S, parameters: Mapping[str, Parameter]) -> S:
    """The space with its parameters replaced by those of the same names."""
    return replace(
        space,
        parameters=tuple(parameters[p.name] for p in space.parameters),
        order=tuple(parameters[p.name] for p in space.order),
        by_name={p.name: parameters[p.name] for p in space.parameters},
    )


def _check_name(space: SpaceContent, word: str, name: str) -> None:
    if name not in space.by_name:
        raise SpaceError(f"{space.name}: {word}: no parameter {name!r}{space.hint(name)}")


def _risk(space: SpaceContent, word: str) -> Risk:
    try:
        return Risk(word)
    except ValueError:
        hint = nearest(word, Risk)
        raise SpaceError(f"{space.name}: allow_risk: no risk class {word!r}{hint}") from None


def _with_range(space: SpaceContent, parameter: Parameter, bounds: Sequence[Value]) -> Parameter:
    where = f"{space.name}: range: {parameter.name}"
    if isinstance(bounds, str) or not isinstance(bounds, Sequence):
        raise SpaceError(f"{where}: {bounds!r} is not a list")
    for value in bounds:
        if wrong := type_problem(parameter, value):
            raise SpaceError(f"{where}: {wrong}")
    if parameter.kind is Kind.BOOLEAN:
        raise SpaceError(f"{where} is true or false and has no range; fix it instead")
    if parameter.kind is Kind.CATEGORICAL:
        if not bounds:
            raise SpaceError(f"{where}: the list is empty")
        return replace(parameter, candidates=tuple(str(value) for value in bounds))
    if len(bounds) != 2:
        raise SpaceError(f"{where}: {list(bounds)} is not [low, high]")
    low, high = int(bounds[0]), int(bounds[1])
    if low > high:
        raise SpaceError(f"{where}: low {low} is above high {high}")
    hard = parameter.hard
    for value in (low, high):
        if value not in hard:
            raise SpaceError(f"{where}: {value} is outside {hard.text}")
        if parameter.kind is Kind.POWER_OF_TWO and (value < 1 or value & (value - 1)):
            raise SpaceError(f"{where}: {value} is not a power of two")
    if parameter.kind is Kind.LOG_INT and low < 1:
        raise SpaceError(f"{where}: {low} has no logarithm")
    return replace(parameter, low=low, high=high, strict_range=True)


def _check_fixed(space: SpaceContent, parameter: Parameter, value: Value) -> None:
    where = f"{space.name}: fix: {parameter.name}"
    if wrong := type_problem(parameter, value):
        raise SpaceError(f"{where}: {wrong}")
    hard = parameter.hard
    if not parameter.kind.numeric or isinstance(value, str) or hard.outside is Outside.ACCEPTS:
        return
    if value not in hard:
        limits = f"{hard.text}, which the program {hard.outside}"
        raise SpaceError(f"{where}: {value} is outside {limits}")


def _pin_conditions(
    space: SpaceContent, parameters: dict[str, Parameter], fix: Mapping[str, Value]
) -> None:
    """Do not search the parameters on which a fixed parameter's condition depends.

    Raises SpaceError if the fixed values do not meet the condition.
    """
    for name in fix:
        condition = parameters[name].only_if
        if condition is None:
            continue
        for other in condition.expression.names & parameters.keys():
            parameters[other] = replace(parameters[other], searched=False)
        env, _ = settle(space, fix)
        if not condition.expression(env):
            raise SpaceError(f"{space.name}: fix: {name} may not be set: {condition.why}")
