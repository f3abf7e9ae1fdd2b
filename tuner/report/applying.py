"""Explain recommended settings: what they mean and cost, how to apply them and how to undo them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.console import RenderableType

from search_spaces import Space, describe
from tuner.model import Answer, Recommendation
from tuner.records.differences import differences
from tuner.report.answer import flag_line, section
from tuner.report.drawing import paragraph
from tuner.services.kind import Program
from tuner.services.kinds import programs
from tuner.text import value_text

_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Step:
    """How to apply the recommended settings of one program.

    ``put``: where its options belong; ``then``: what makes them take effect; ``options`` and
    ``undo``: the recommended and the original options as shell-quoted lines ("" for none).
    """

    part: str
    put: str
    then: str
    options: str
    undo: str


def applying(
    recommendation: Recommendation, spaces: Mapping[str, Space]
) -> Sequence[RenderableType]:
    """Return the sections for a recommendation; empty without one or without known ``spaces``."""
    r = recommendation
    if r.answer is not Answer.RECOMMENDED:
        return ()
    meaning = meanings(r, spaces)
    todo = [line for step in steps(r, spaces) for line in _todo(step)]
    parts: list[RenderableType] = []
    if meaning:
        parts.append(section("What these settings mean", *map(paragraph, meaning)))
    if todo:
        parts.append(section("To apply, and to undo", *map(paragraph, todo)))
    return parts


def meanings(recommendation: Recommendation, spaces: Mapping[str, Space]) -> list[str]:
    """Describe in sentences each changed setting, its old value, and the cost in memory."""
    return [*_meanings(recommendation, spaces), *_costs(recommendation, spaces)]


def _meanings(r: Recommendation, spaces: Mapping[str, Space]) -> list[str]:
    lines = []
    for change in differences(r.baseline, r.configuration)[0]:
        part, _, name = change.name.partition(".")
        space = spaces.get(part)
        if space is None or name not in space.by_name:
            continue
        parameter = space[name]
        unit = f" ({parameter.unit})" if parameter.unit else ""
        before = space.in_effect(r.baseline.part(part)).get(name)
        what = "default" if change.old is None else "as found"
        effective = f"; {what}: {value_text(before)}" if before is not None else ""
        lines.append(f"{change.name}{unit}: {_brief(parameter.about)}{effective}")
    return lines


def _brief(about: str) -> str:
    """Return the first clause of a parameter's description."""
    return about.split(";")[0].split(". ")[0].rstrip(".")


def _costs(r: Recommendation, spaces: Mapping[str, Space]) -> list[str]:
    """Estimate how each program's memory use changes, on a host as its search space assumes it."""
    lines = []
    for part, space in spaces.items():
        old = space.memory_bytes(r.baseline.part(part)) / _MIB
        new = space.memory_bytes(r.configuration.part(part)) / _MIB
        if round(old) != round(new):
            lines.append(
                f"memory of {space.program} on each host: about {new:.0f} MiB instead of "
                f"{old:.0f} MiB (an estimate)"
            )
    return lines


def steps(recommendation: Recommendation, spaces: Mapping[str, Space]) -> list[Step]:
    """Return how to apply and undo a recommendation, skipping programs with unchanged options."""
    lines = []
    for part, space in spaces.items():
        new = recommendation.flags.get(part, ())
        old = recommendation.baseline_flags.get(part, ())
        if new == old:
            continue
        unknown = Program(
            f"the settings of {space.program}: {describe.form(space)}", f"restart {space.program}"
        )
        program = programs().get(space.program, unknown)
        lines.append(Step(part, program.where, program.then, flag_line(new), flag_line(old)))
    return lines


def _todo(step: Step) -> list[str]:
    return [
        f"{step.part}: put the options below into {step.put}; then {step.then}",
        f"{step.part}, undo: the same with these options as found: {step.undo or 'none of them'}",
    ]
