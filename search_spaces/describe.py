"""Descriptions of spaces, shared by the reference page and the command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from search_spaces.expressions import Expression, Value
from search_spaces.model import Bound, Form, Kind, Outside, Parameter, Risk, Role, Use
from search_spaces.space import Space
from search_spaces.values_in_effect import NO_PRESET

#: Values that ``json`` can serialize.
Json = Mapping[str, "Json"] | Sequence["Json"] | str | int | bool | None

_SPACING = {
    Kind.INT: "whole numbers",
    Kind.LOG_INT: "whole numbers spaced by ratio",
    Kind.POWER_OF_TWO: "powers of two",
}
_OUTSIDE = {
    Outside.REFUSES: "the program refuses others",
    Outside.CLAMPS: "the program silently moves others to the nearest of these",
    Outside.IGNORES: "the program ignores others and uses its default",
    Outside.ACCEPTS: "others make no sense, but the program accepts them",
}
_FORMS = {
    Form.LIBCMD: "options on the command line; unambiguous prefixes of their names are accepted",
    Form.EXACT: "options on the command line, written in full",
    Form.SETTINGS: "`name=value`",
    Form.COMMANDS: "one command for each parameter",
    Form.LINES: "`name = value`, one line each",
}


_USES = {
    Use.CAMPAIGNS: "campaigns on real programs",
    Use.SIMULATION: "campaigns on simulated testbeds",
    Use.READING: "fstune space (show, sample, parse)",
}


def purpose(space: Space) -> str:
    """What the space can be used for, as a phrase."""
    return "; ".join(_USES[use] for use in space.uses)


def form(space: Space) -> str:
    """How the program accepts its settings, as a phrase."""
    return _FORMS[space.form]


def text_of(value: Expression | Value | None) -> str:
    """A value as written in a file or on a command line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "not fixed"
    return value.text if isinstance(value, Expression) else str(value)


def search_status(parameter: Parameter) -> str:
    """Whether values are proposed, and if not, why."""
    if parameter.fixed is not None:
        return f"fixed at {text_of(parameter.fixed)}"
    if parameter.searched:
        return "yes"
    if parameter.role is Role.CONTROL:
        return "no, a negative control: inert in a short trial"
    if parameter.risk is not Risk.PERFORMANCE:
        return f"no, a matter of {parameter.risk}: stays as found unless a campaign allows it"
    return "no, stays as found"


def sensible(parameter: Parameter) -> str:
    """The values that a search proposes."""
    if parameter.kind is Kind.BOOLEAN:
        return "true"
    if parameter.kind is Kind.CATEGORICAL:
        return ", ".join(parameter.candidates)
    return f"{parameter.low} to {parameter.high}"


def defaults(parameter: Parameter) -> str:
    """The program's defaults for the parameter, by preset."""
    by_preset = dict(parameter.defaults)
    plain = text_of(by_preset.pop(NO_PRESET))
    return "; ".join([plain, *(f"with {p}: {text_of(v)}" for p, v in by_preset.items())])


def _limits(parameter: Parameter) -> str:
    low, high = parameter.hard.low, parameter.hard.high
    if low is None and high is None:
        return ""
    between = f"{low} to {high}" if low is not None and high is not None else ""
    bounds = between or (f"{low} or more" if high is None else f"{high} or less")
    return f"{bounds}; {_OUTSIDE[parameter.hard.outside]}"


def _bound(bound: Bound | None) -> str:
    if bound is None:
        return ""
    how = "; the program enforces it silently" if bound.clamped else ""
    return f"`{bound.expression.text}`: {bound.why}{how}"


def _range(parameter: Parameter) -> str:
    if parameter.kind.numeric:
        unit = f" {parameter.unit}" if parameter.unit else ""
        return f"{sensible(parameter)}{unit}, {_SPACING[parameter.kind]}"
    return sensible(parameter)


def details(parameter: Parameter) -> list[tuple[str, str]]:
    """Everything known about a parameter, as (label, text) pairs; expressions in backquotes."""
    read_back, condition = parameter.read_back, parameter.only_if
    read_back_text = ""
    if read_back is not None:
        read_back_text = f"`{read_back.key}`"
        if read_back.shows is not None:
            read_back_text += f", which shows `{read_back.shows.text}`"
    flags = [f"`{flag}`" for flag in parameter.flags]
    others = set(parameter.choices) - set(parameter.candidates)
    unset = parameter.same_as_unset
    rows = [
        ("written", " or ".join(flags)),
        ("proposed", _range(parameter)),
        ("also valid", ", ".join(word for word in parameter.choices if word in others)),
        ("hard limits", _limits(parameter)),
        ("at least", _bound(parameter.at_least)),
        ("at most", _bound(parameter.at_most)),
        ("default", defaults(parameter)),
        ("special", "; ".join(f"{v}: {means}" for v, means in parameter.special.items())),
        ("the same as unset", "" if unset is None else str(unset)),
        ("only if", f"`{condition.expression.text}`: {condition.why}" if condition else ""),
        (
            "set together with",
            ", ".join(f"{n} = {text_of(v)}" for n, v in parameter.accompanied_by.items()),
        ),
        ("searched", search_status(parameter)),
        ("risk class", str(parameter.risk)),
        ("without risk", _safe(parameter)),
        ("a change needs", _CHANGES[parameter.change]),
        ("memory", f"`{parameter.memory.text}` bytes" if parameter.memory else ""),
        ("raises", f"`{parameter.supplies}` for the spaces after it" if parameter.supplies else ""),
        ("read back as", read_back_text),
        ("versions", parameter.versions),
        ("source", parameter.source),
    ]
    return [(label, text) for label, text in rows if text]


def _safe(parameter: Parameter) -> str:
    """The values that put nothing but performance at risk, if others do."""
    joint = " to " if parameter.kind.numeric else ", "
    return joint.join(map(text_of, dict.fromkeys(parameter.safe)))


_CHANGES = {
    "live": "nothing, it takes effect at once",
    "remount": "a remount of the client",
    "restart": "a restart of the program",
}


def document(space: Space) -> dict[str, Json]:
    """A space as one JSON document."""
    return {
        "name": space.name,
        "part": space.part,
        "title": space.title,
        "program": space.program,
        "versions": space.versions,
        "evidence": space.evidence,
        "form": str(space.form),
        "for": [str(use) for use in space.uses],
        "facts": {
            f.name: {"assumed": f.assumed, "unit": f.unit, "about": f.about}
            for f in space.facts.values()
        },
        "parameters": {p.name: _parameter(p) for p in space.parameters},
        "constraints": [{"rule": c.rule.text, "why": c.why} for c in space.constraints],
        "presets": [
            {"name": p.name, "source": p.source, "values": dict(p.values), "rest": list(p.rest)}
            for p in space.presets
        ],
        "left_out": {flag: option.left_out for flag, option in space.left_out.items()},
    }


def _parameter(parameter: Parameter) -> dict[str, Json]:
    hard = parameter.hard
    bounds: list[Json] = (
        [parameter.low, parameter.high] if parameter.kind.numeric else list(parameter.candidates)
    )
    fields: dict[str, Json] = {
        "flags": list(parameter.flags),
        "kind": str(parameter.kind),
        "unit": parameter.unit,
        "hard": {"low": hard.low, "high": hard.high, "outside": str(hard.outside)},
        "range": bounds,
        "choices": list(parameter.choices),
        "special": dict(parameter.special),
        "same_as_unset": parameter.same_as_unset,
        "default": {
            preset: value.text if isinstance(value, Expression) else value
            for preset, value in parameter.defaults.items()
        },
        "searched": parameter.searched,
        "role": str(parameter.role),
        "risk": str(parameter.risk),
        "safe": list(parameter.safe),
        "change": str(parameter.change),
        "about": parameter.about,
        "source": parameter.source,
        "versions": parameter.versions,
    }
    if parameter.only_if is not None:
        fields["only_if"] = parameter.only_if.expression.text
    for key, bound in (("at_least", parameter.at_least), ("at_most", parameter.at_most)):
        if bound is not None:
            fields[key] = bound.expression.text
    if parameter.memory is not None:
        fields["memory_bytes"] = parameter.memory.text
    if parameter.read_back is not None:
        fields["read_back"] = parameter.read_back.key
    return fields
