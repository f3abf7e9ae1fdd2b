"""Explain recommended settings: what they mean and cost, how to apply them and how to undo them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.console import RenderableType

from search_spaces import Space, SpaceError, describe
from tuner.model import Answer, Recommendation, Value
from tuner.records.differences import differences
from tuner.report.answer import flag_line, section
from tuner.report.drawing import paragraph
from tuner.services.kind import Program
from tuner.services.kinds import programs
from tuner.text import value_text

_MIB = 1 << 20
#: By this factor, hosts are taken to differ from what a search space assumes.
_SPREAD = 8


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
    meaning = meanings(r, spaces, without_effect(r, spaces))
    todo = [line for step in steps(r, spaces) for line in _todo(step)]
    parts: list[RenderableType] = []
    if meaning:
        parts.append(section("What these settings mean", *map(paragraph, meaning)))
    if todo:
        parts.append(section("To apply, and to undo", *map(paragraph, todo)))
    return parts


def without_effect(recommendation: Recommendation, spaces: Mapping[str, Space]) -> frozenset[str]:
    """Return the names of changed settings that could be left as they are in the baseline, all of
    them together: whatever the host, the same values would be in effect. Those set to their default
    are examples, but not those that keep their value only because they are set.
    """
    r = recommendation
    names = set()
    settings = {part: dict(r.configuration.part(part)) for part in spaces}
    for change in differences(r.baseline, r.configuration)[0]:
        part, _, name = change.name.partition(".")
        if part not in spaces:
            continue
        less = {key: value for key, value in settings[part].items() if key != name}
        if change.old is not None:
            less[name] = change.old
        if _are_same(spaces[part], settings[part], less, name):
            names.add(change.name)
            settings[part] = less
    return frozenset(names)


def _hosts(space: Space) -> Iterator[Mapping[str, int]]:
    """Yield the facts of the host that a space assumes, and those of a smaller and a larger one."""
    yield {}
    yield {name: fact.assumed // _SPREAD for name, fact in space.facts.items()}
    yield {name: fact.assumed * _SPREAD + 1 for name, fact in space.facts.items()}


def _are_same(
    space: Space, some: Mapping[str, Value], others: Mapping[str, Value], name: str
) -> bool:
    """Whether the same values are in effect with ``some`` settings as with ``others``, on every
    host, and that of the parameter is known.
    """

    def typed(
        values: Mapping[str, Value], facts: Mapping[str, int]
    ) -> dict[str, tuple[type, Value]]:
        return {
            each: (type(value), value) for each, value in _in_effect(space, values, facts).items()
        }

    return all(
        name in (in_effect := typed(some, facts)) and in_effect == typed(others, facts)
        for facts in _hosts(space)
    )


def _in_effect(
    space: Space, values: Mapping[str, Value], facts: Mapping[str, int]
) -> dict[str, Value]:
    """Return the values in effect; none if there is no telling. An imported campaign may have
    settings that the program does not accept.
    """
    try:
        return space.in_effect(values, facts)
    except SpaceError:
        return {}


def meanings(
    recommendation: Recommendation, spaces: Mapping[str, Space], stay: Collection[str]
) -> list[str]:
    """Describe in sentences each changed setting, its old value, and the cost in memory. ``stay``:
    see ``without_effect``.
    """
    return [*_meanings(recommendation, spaces, stay), *_costs(recommendation, spaces)]


def _meanings(r: Recommendation, spaces: Mapping[str, Space], stay: Collection[str]) -> list[str]:
    lines = []
    for change in differences(r.baseline, r.configuration)[0]:
        part, _, name = change.name.partition(".")
        space = spaces.get(part)
        if space is None or name not in space.by_name:
            continue
        parameter = space[name]
        unit = f" ({parameter.unit})" if parameter.unit else ""
        initial = r.baseline.part(part)
        every = {_in_effect(space, initial, host).get(name) for host in _hosts(space)}
        before = _in_effect(space, initial, {}).get(name)
        # Only the assumed host is known here: another may have another default.
        default = "usual default" if len(every) > 1 else "default"
        what = default if change.old is None else "as found"
        effective = f"; {what}: {value_text(before)}" if before is not None else ""
        if change.name in stay:
            effective = f"; no change: {value_text(before)} is in effect already"
        lines.append(f"{change.name}{unit}: {_brief(parameter.about)}{effective}")
    return lines


def _brief(about: str) -> str:
    """Return the first clause of a parameter's description."""
    return about.split(";")[0].split(". ")[0].rstrip(".")


def _costs(r: Recommendation, spaces: Mapping[str, Space]) -> list[str]:
    """Estimate how each program's memory use changes, on a host as its search space assumes it."""
    lines = []
    for part, space in spaces.items():
        try:
            old = space.memory_bytes(r.baseline.part(part)) / _MIB
            new = space.memory_bytes(r.configuration.part(part)) / _MIB
        except SpaceError:
            continue  # of settings that the program does not accept
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
        f"{step.part}, undo: the same with the options as found: {step.undo or '(none)'}",
    ]
