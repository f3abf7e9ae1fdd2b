"""Load space files: YAML text to a validated Space, or one clear error."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import replace
from enum import StrEnum
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import TypeVar

from search_spaces.expressions import Expression, ExpressionError, Value
from search_spaces.forms import form_problem
from search_spaces.lookup import packaged, source, whole_document
from search_spaces.model import (
    Bound,
    Change,
    Condition,
    Constraint,
    Fact,
    Form,
    HardLimits,
    Kind,
    Option,
    Outside,
    Parameter,
    Preset,
    ReadBack,
    Risk,
    Role,
    SpaceError,
    Takes,
    Use,
    excerpt,
    nearest,
)
from search_spaces.reading import Section
from search_spaces.space import Space
from search_spaces.values_in_effect import (
    COMMAND_LENGTH,
    MEMORY_ESTIMATE,
    NO_PRESET,
    check_values,
    safe_problem,
    type_problem,
)

_Word = TypeVar("_Word", bound=StrEnum)


def load(name_or_path: str) -> Space:
    """Load a space by name, or from a file (anything with a slash or ending in .yaml or .yml).

    Raises SpaceError with file, key and reason in one line.
    """
    text, where = source(name_or_path, Path())
    # Cache packaged spaces, which commands load repeatedly.
    return (_parsed_once if text in packaged() else parse_space)(text, where)


def parse_space(text: str, where: str) -> Space:
    """Parse a space from ``text``; ``where`` is its name in errors. Raises SpaceError."""
    root = Section(where, "", whole_document(text, where))
    facts = {n: _fact(n, s) for n, s in root.sections("facts").items()}
    preset = root.text("defaults_by", "")
    sections = root.sections("parameters", required=True)
    by_name = {name: _parameter(name, section) for name, section in sections.items()}
    form = _word(root, "form", Form, Form.LIBCMD)
    if preset and preset not in by_name:
        root.fail("defaults_by", f"no parameter {preset!r}{nearest(preset, by_name)}")
    options = _options(root, by_name.values())
    fields = tuple(n for n, p in by_name.items() if n != preset and p.defaults.keys() - {NO_PRESET})
    space = Space(
        name=root.text("name"),
        part=root.text("part"),
        title=root.text("title"),
        program=root.text("program"),
        versions=root.text("versions"),
        parameters=tuple(by_name.values()),
        facts=facts,
        constraints=tuple(_constraint(s, by_name) for s in root.list_of_sections("constraints")),
        options=tuple(options[flag] for flag in root.words("options")),
        left_out={flag: option for flag, option in options.items() if option.left_out},
        form=form,
        evidence=root.text("evidence", ""),
        order=_in_order(root, by_name, preset),
        preset_parameter=preset,
        preset_fields=fields,
        foreign_options=root.boolean("foreign_options"),
        by_name=by_name,
        uses=_uses(root),
    )
    _check_names(root, space)
    _check_form(root, space)
    check_values(space)
    presets = tuple(_preset(s, space) for s in root.list_of_sections("presets"))
    root.refuse_unknown()
    return replace(space, presets=presets)


_parsed_once = cache(parse_space)


def _uses(root: Section) -> tuple[Use, ...]:
    """The uses of the space; all if none are listed."""
    uses = root.words("for") or [*Use]
    for word in uses:
        if word not in [*Use]:
            root.fail("for", f"{word!r} is not a valid word{nearest(word, Use)}")
    return tuple(use for use in Use if use in uses)


def _check_form(root: Section, space: Space) -> None:
    """Reject what the form of the space cannot express."""
    for parameter in space.parameters:
        if reason := form_problem(space.form, parameter):
            root.fail(f"parameters.{parameter.name}", reason)


def _fact(name: str, section: Section) -> Fact:
    fact = Fact(name, section.integer("assumed"), section.text("unit"), section.text("about"))
    section.refuse_unknown()
    return fact


def _word(section: Section, key: str, words: type[_Word], default: _Word | None = None) -> _Word:
    text = section.text(key, None if default is None else str(default))
    try:
        return words(text)
    except ValueError:
        return section.fail(key, f"{text!r} is not a valid word{nearest(text, words)}")


def _expression(section: Section, key: str, text: str) -> Expression:
    try:
        return Expression.of(text, section.place(key))
    except ExpressionError as error:
        return section.fail(key, str(error))


def _optional_expression(section: Section, key: str) -> Expression | None:
    text = section.text(key, "")
    return _expression(section, key, text) if text else None


def _parameter(name: str, section: Section) -> Parameter:
    if not name.isidentifier() or name in (MEMORY_ESTIMATE, COMMAND_LENGTH):
        section.fail("", f"{name!r} cannot be the name of a parameter")
    kind = _word(section, "kind", Kind)
    choice_flags = section.words_by_word("choice_flags")
    choices = tuple(section.words("choices")) or tuple(choice_flags)
    role = _word(section, "role", Role, Role.SEARCHED)
    risk = _word(section, "risk", Risk, Risk.PERFORMANCE)
    parameter = Parameter(
        name=name,
        flag=section.text("flag", "" if choice_flags else None),
        kind=kind,
        about=section.text("about"),
        source=section.text("source"),
        unit=section.text("unit", ""),
        hard=_hard(section.section("hard")),
        choices=choices,
        choice_flags=choice_flags,
        off_flag=section.text("off_flag", ""),
        special=section.words_by_word("special"),
        same_as_unset=section.optional_integer("same_as_unset"),
        defaults=_defaults(section, kind),
        only_if=_condition(section.section("only_if")),
        at_least=_bound(section.section("at_least")),
        at_most=_bound(section.section("at_most")),
        change=_word(section, "change", Change),
        risk=risk,
        safe=tuple(section.list_of_values("safe")),
        role=role,
        memory=_optional_expression(section, "memory"),
        versions=section.text("versions", ""),
        read_back=_read_back(section.section("read_back")),
        accompanied_by=section.values("accompanied_by"),
        supplies=section.text("supplies", ""),
        searched=role is Role.SEARCHED and risk is Risk.PERFORMANCE,
    )
    parameter = _with_range(section, parameter)
    if problem := safe_problem(parameter):
        section.fail("safe", problem)
    if parameter.same_as_unset is not None and not kind.numeric:
        section.fail("same_as_unset", f"a parameter of kind {kind} has no number for it")
    section.refuse_unknown()
    return parameter


def _with_range(section: Section, parameter: Parameter) -> Parameter:
    kind, hard = parameter.kind, parameter.hard
    if kind is Kind.BOOLEAN:
        return parameter
    if kind is Kind.CATEGORICAL:
        if not parameter.choices:
            section.fail("choices", "missing: a categorical parameter needs its words")
        candidates = tuple(section.words("range")) or parameter.choices
        for word in candidates:
            if word not in parameter.choices:
                hint = nearest(word, parameter.choices)
                section.fail("range", f"{word!r} is not one of the choices{hint}")
        return replace(parameter, candidates=candidates)
    low, high = section.pair("range")
    if low > high:
        section.fail("range", f"low {low} is above high {high}")
    if kind is Kind.LOG_INT and low < 1:
        section.fail("range", f"{low} has no logarithm")
    if kind is Kind.POWER_OF_TWO and (low < 1 or low & (low - 1) or high & (high - 1)):
        section.fail("range", f"[{low}, {high}] are not powers of two")
    if hard.low is not None and hard.high is not None and hard.low > hard.high:
        section.fail("hard", f"low {hard.low} is above high {hard.high}")
    if low not in hard or high not in hard:
        section.fail("range", f"[{low}, {high}] goes beyond the hard limits")
    return replace(parameter, low=low, high=high)


def _hard(section: Section | None) -> HardLimits:
    if section is None:
        return HardLimits()
    low, high = section.optional_integer("low"), section.optional_integer("high")
    hard = HardLimits(low, high, _word(section, "outside", Outside))
    section.refuse_unknown()
    return hard


def _defaults(section: Section, kind: Kind) -> dict[str, Expression | Value | None]:
    raw = section.raw("default")
    by_preset: Mapping[object, object] = raw if isinstance(raw, dict) else {NO_PRESET: raw}
    if NO_PRESET not in by_preset:
        section.fail("default", f"lacks {NO_PRESET!r}")
    defaults: dict[str, Expression | Value | None] = {}
    for preset, value in by_preset.items():
        if value is None or (isinstance(value, bool) == (kind is Kind.BOOLEAN)):
            if isinstance(value, str) and kind.numeric:
                defaults[str(preset)] = _expression(section, "default", value)
                continue
            if value is None or isinstance(value, int | str):
                defaults[str(preset)] = value
                continue
        section.fail(
            "default", f"{excerpt(value)} is not a valid default for a parameter of kind {kind}"
        )
    return defaults


def _condition(section: Section | None) -> Condition | None:
    if section is None:
        return None
    condition = Condition(_expression(section, "rule", section.text("rule")), section.text("why"))
    section.refuse_unknown()
    return condition


def _bound(section: Section | None) -> Bound | None:
    if section is None:
        return None
    expression = _expression(section, "value", section.text("value"))
    bound = Bound(expression, section.text("why"), section.boolean("clamped"))
    section.refuse_unknown()
    return bound


def _read_back(section: Section | None) -> ReadBack | None:
    if section is None:
        return None
    read_back = ReadBack(section.text("key"), _optional_expression(section, "shows"))
    section.refuse_unknown()
    return read_back


def _constraint(section: Section, by_name: Mapping[str, Parameter]) -> Constraint:
    rule = _expression(section, "rule", section.text("rule"))
    lower, unset = (_names(section, key, by_name) for key in ("lower", "unset"))
    constraint = Constraint(rule, section.text("why"), lower, unset)
    for name in lower:
        if not by_name[name].kind.numeric:
            section.fail("lower", f"{name} is not a number")
    section.refuse_unknown()
    return constraint


def _names(section: Section, key: str, by_name: Mapping[str, Parameter]) -> tuple[str, ...]:
    names = tuple(section.words(key))
    for name in names:
        if name not in by_name:
            section.fail(key, f"no parameter {name!r}{nearest(name, by_name)}")
    return names


def _options(root: Section, parameters: Iterable[Parameter]) -> dict[str, Option]:
    """Every option by flag: those of the program's help in its order, then those of other versions.

    Checks that each belongs to a parameter or is left out with a reason.
    """
    every: dict[str, Option] = {}
    for parameter in parameters:
        for flag in parameter.flags:
            if flag in every:
                root.fail(
                    f"parameters.{parameter.name}",
                    f"{flag} is already the option of another parameter",
                )
            bare = parameter.kind is Kind.BOOLEAN or flag in parameter.choice_flags.values()
            every[flag] = Option(flag, Takes.NOTHING if bare else Takes.VALUE)
    for flag, section in root.sections("left_out").items():
        if flag in every:
            section.fail("", f"{flag} is an option of a parameter as well")
        takes = _word(section, "takes", Takes, Takes.NOTHING)
        every[flag] = Option(flag, takes, section.text("why"), section.text("versions", ""))
        section.refuse_unknown()
    order = root.words("options")
    for flag in order:
        if flag not in every:
            root.fail(
                "options", f"{flag} belongs to no parameter and is not left out with a reason"
            )
    if missing := [o.flag for o in every.values() if o.flag not in order and not o.versions]:
        root.fail("options", f"lacks {', '.join(missing)}")
    if len(set(order)) != len(order):
        root.fail("options", "names an option twice")
    return {flag: every[flag] for flag in (*order, *every)}


def _expressions(parameter: Parameter) -> list[tuple[str, Expression]]:
    """The expressions on which the parameter's value depends, with their keys."""
    expressions = [("default", d) for d in parameter.defaults.values() if isinstance(d, Expression)]
    if parameter.only_if is not None:
        expressions.append(("only_if", parameter.only_if.expression))
    if parameter.at_least is not None:
        expressions.append(("at_least", parameter.at_least.expression))
    if parameter.at_most is not None:
        expressions.append(("at_most", parameter.at_most.expression))
    return expressions


def _in_order(
    root: Section, by_name: Mapping[str, Parameter], preset: str
) -> tuple[Parameter, ...]:
    """The parameters so that each comes after those that its value depends on."""
    sorter: TopologicalSorter[str] = TopologicalSorter()
    for parameter in by_name.values():
        after = {n for _, e in _expressions(parameter) for n in e.names if n in by_name}
        if preset and parameter.name != preset:
            after.add(preset)
        after |= {n for n, p in by_name.items() if parameter.name in p.accompanied_by}
        sorter.add(parameter.name, *(n for n in by_name if n in after))
    try:
        return tuple(by_name[name] for name in sorter.static_order())
    except CycleError as error:
        return root.fail("parameters", f"depend on each other: {' -> '.join(error.args[1])}")


def _check_names(root: Section, space: Space) -> None:
    """Check that every name in an expression is a fact or a parameter that always has a value."""
    always_set = {n for n, p in space.by_name.items() if None not in p.defaults.values()}
    both = space.by_name.keys() & space.facts.keys()
    if both:
        root.fail("facts", f"{min(both)!r} is the name of a parameter as well")

    def check(where: str, expression: Expression, extra: frozenset[str]) -> None:
        for name in sorted(expression.names - extra - always_set - space.facts.keys()):
            if name in space.by_name:
                root.fail(where, f"{name} has no default, so it cannot be used in an expression")
            hint = nearest(name, (*space.by_name, *space.facts, *extra))
            root.fail(where, f"unknown name {name!r}{hint}")
        for name in sorted(expression.numbers & space.by_name.keys()):
            if space.by_name[name].kind is Kind.CATEGORICAL:
                root.fail(where, f"{name} is a word, not a number to calculate with")

    for parameter in space.parameters:
        where, own = f"parameters.{parameter.name}", frozenset({parameter.name})
        for key, expression in _expressions(parameter):
            check(f"{where}.{key}", expression, frozenset())
        if parameter.memory is not None:
            check(f"{where}.memory", parameter.memory, own)
        if parameter.read_back is not None and parameter.read_back.shows is not None:
            check(f"{where}.read_back", parameter.read_back.shows, own)
        for name, value in parameter.accompanied_by.items():
            if name not in space.by_name:
                hint = nearest(name, space.by_name)
                root.fail(f"{where}.accompanied_by", f"no parameter {name!r}{hint}")
            if wrong := type_problem(space.by_name[name], value):
                root.fail(f"{where}.accompanied_by", f"{name}: {wrong}")
    whole = frozenset({MEMORY_ESTIMATE, COMMAND_LENGTH})
    for number, constraint in enumerate(space.constraints):
        check(f"constraints[{number}].rule", constraint.rule, whole)


def _preset(section: Section, space: Space) -> Preset:
    name, source = section.text("name"), section.text("source")
    options = section.text("options", "")
    try:
        parsed = space.parse(shlex.split(options))
    except (SpaceError, ValueError) as error:
        section.fail("options", str(error))
    section.refuse_unknown()
    return Preset(name, options, source, parsed.values, parsed.rest)
