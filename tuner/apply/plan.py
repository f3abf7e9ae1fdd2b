"""Plans of applications: changes from the configuration in effect to the recommended one. Pure.

The identity of a plan is a hash of both configurations, so that approving a plan approves this
change and no other.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256

from search_spaces import Space, SpaceError
from tuner.model import Configuration, Value
from tuner.records.differences import Difference, differences, names_of_changes
from tuner.text import differ, value_text

_LENGTH = 32


@dataclass(frozen=True, slots=True)
class PartPlan:
    """Changes of one part. ``old`` and ``new``: its current and planned program options;
    ``outlives_restart``, ``where_kept`` and ``how_changed``: see ``LastingPart``.
    """

    name: str
    program: str
    changes: tuple[Difference, ...]
    old: tuple[str, ...]
    new: tuple[str, ...]
    outlives_restart: bool
    where_kept: str
    how_changed: str = "is restarted"


@dataclass(frozen=True, slots=True)
class ApplyPlan:
    """A plan. ``testbed``: the identity of the testbed, ``label``: its name for people;
    ``programs``: programs and versions there; ``parts``: those that change; ``steps``: the
    configurations to bring into effect in order, the last of which is ``after``; ``notes``:
    sentences to read before agreeing; ``clients``: see ``Application``.
    """

    campaign: str
    testbed: str
    label: str
    programs: str
    before: Configuration
    after: Configuration
    parts: tuple[PartPlan, ...]
    steps: tuple[Configuration, ...]
    notes: tuple[str, ...]
    stepwise: bool
    clients: tuple[str, ...] = ()

    @property
    def identity(self) -> str:
        """See ``plan_identity``."""
        return plan_identity(
            self.testbed, self.programs, self.before, self.after, self.stepwise, self.clients
        )

    @property
    def is_empty(self) -> bool:
        """Whether the recommended configuration is already in effect."""
        return not self.parts


def plan_identity(
    testbed: str,
    programs: str,
    before: Configuration,
    after: Configuration,
    stepwise: bool,
    clients: Sequence[str] = (),
) -> str:
    """Hash of a change, equal for plans that make the same change to the same state: 32
    hexadecimal digits. ``clients``: see ``Application``.
    """
    items: list[object] = [testbed, programs, before.items, after.items, stepwise]
    if clients:
        items.append(clients)
    return sha256(json.dumps(items, ensure_ascii=True).encode()).hexdigest()[:_LENGTH]


def changed_parts(before: Configuration, after: Configuration) -> frozenset[str]:
    """Names of the parts that two configurations set differently."""
    return frozenset(one.name.partition(".")[0] for one in differences(before, after)[0])


def replaced(
    part: str,
    space: Space,
    facts: Mapping[str, int],
    now: Configuration,
    after: Configuration,
    *others: Configuration,
) -> tuple[str, ...]:
    """Settings of a part that are neither as applied (``after``) nor as in ``others``, a sentence
    each; one without a value counts as its default.
    """
    return tuple(
        f"{name} is {value}, where {applied} was applied"
        for name, value, applied in _in_none_of((after, *others), part, space, facts, now)
    )


def not_as_before(
    part: str,
    space: Space,
    facts: Mapping[str, int],
    now: Configuration,
    before: Configuration,
) -> tuple[str, ...]:
    """Settings of a part that are not as they were ``before``, a sentence each; as ``replaced``."""
    return tuple(
        f"{name} is {value}, and was {old}"
        for name, value, old in _in_none_of((before,), part, space, facts, now)
    )


def in_neither(
    part: str,
    space: Space,
    facts: Mapping[str, int],
    now: Configuration,
    before: Configuration,
    after: Configuration,
) -> tuple[str, ...]:
    """Settings of a part that are as in neither of two configurations, a sentence each."""
    return tuple(
        f"{name} is {value}"
        for name, value, _ in _in_none_of((before, after), part, space, facts, now)
    )


def _in_none_of(
    others: Sequence[Configuration],
    part: str,
    space: Space,
    facts: Mapping[str, int],
    now: Configuration,
) -> Iterator[tuple[str, str, str]]:
    """Settings of a part whose value ``now`` is in none of the ``others``: the name, and in words
    the value now and that in the first of them.
    """
    current, *rest = (_values(one.part(part), space, facts) for one in (now, *others))
    for name in sorted({name for one in (current, *rest) for name in one}):
        if all(current.get(name) != one.get(name) for one in rest):
            value, first = value_text(current.get(name)), value_text(rest[0].get(name))
            yield f"{part}.{name}", value, first


def _values(
    values: Mapping[str, Value], space: Space, facts: Mapping[str, int]
) -> Mapping[str, Value]:
    try:
        return {**values, **space.in_effect(values, facts)}
    except SpaceError:  # somebody may have set what has no meaning here
        return values


def unknown(configuration: Configuration, spaces: Mapping[str, Space]) -> list[str]:
    """Settings that the search spaces do not have, or no longer: a sentence each. Values beyond the
    limits of a program are none of them: see ``beyond_limits``.
    """
    problems = []
    for name, _ in configuration:
        part, _, parameter = name.partition(".")
        if part not in spaces or parameter not in spaces[part].by_name:
            problems.append(f"no search space of the campaign has {name}")
    if not problems:
        for part, space in spaces.items():
            values = configuration.part(part)
            try:
                space.render(values)
            except SpaceError as error:
                problems += [f"{part}: {why}" for why in space.impossible(values) or [str(error)]]
    return problems


def beyond_limits(
    before: Configuration, after: Configuration, spaces: Mapping[str, Space]
) -> tuple[list[str], list[str]]:
    """Values of ``after`` that are invalid on every host, a sentence each: first those that the
    change sets, which must not be applied since a campaign may have been imported, then those that
    are set ``before`` already, such as by an administrator.
    """
    changes = frozenset(names_of_changes(before, after))
    new, inherited = list[str](), list[str]()
    for part, space in spaces.items():
        for name, value in after.part(part).items():
            sentences = inherited if f"{part}.{name}" not in changes else new
            sentences += [f"{part}: {why}" for why in space.impossible({name: value})]
    return new, inherited


def steps(
    before: Configuration,
    after: Configuration,
    spaces: Mapping[str, Space],
    facts: Mapping[str, Mapping[str, int]],
) -> tuple[Configuration, ...]:
    """Change one setting at a time, in the order of the parts and by name within a part.

    A setting that would break a rule of its search space is postponed until other settings allow
    it; when no single setting can come next, all remaining ones are changed at once.
    """
    order = list(spaces)
    changes = sorted(
        differences(before, after)[0],
        key=lambda one: (order.index(one.name.partition(".")[0]), one.name),
    )
    allowed = _broken(before, spaces, facts) | _broken(after, spaces, facts)
    now, plan = before, list[Configuration]()
    while changes:
        single = ((one, _with(now, one)) for one in changes)
        fits = ((one, to) for one, to in single if _broken(to, spaces, facts) <= allowed)
        one, now = next(fits, (None, after))
        plan.append(now)
        changes = [other for other in changes if one is not None and other != one]
    return tuple(plan)


def _with(configuration: Configuration, change: Difference) -> Configuration:
    values: dict[str, Value] = configuration.as_dict()
    values.pop(change.name, None)
    if change.new is not None:
        values[change.name] = change.new
    return Configuration.of(values)


def _broken(
    configuration: Configuration,
    spaces: Mapping[str, Space],
    facts: Mapping[str, Mapping[str, int]],
) -> frozenset[str]:
    """Rules of the search spaces that a configuration breaks, as sentences."""
    return frozenset(
        rule
        for part, space in spaces.items()
        for rule in space.violations(configuration.part(part), facts.get(part, {}))
    )


def notes(
    before: Configuration,
    baseline: Configuration | None,
    programs: str,
    measured_programs: str,
    other_testbed: bool,
    remarks: Sequence[str],
    campaign_notes: Sequence[str],
    inherited: Sequence[str] = (),
) -> tuple[str, ...]:
    """Notes to read before agreeing to a plan. ``baseline``: the configuration that the campaign
    measured against; ``measured_programs``: the programs it measured with; ``other_testbed``:
    whether it was measured on another testbed; ``inherited``: see ``beyond_limits``.
    """
    sentences = []
    if other_testbed:
        sentences.append(
            "it was measured on another testbed: what is faster there may not be faster here"
        )
    if measured_programs and measured_programs != programs:
        sentences.append(f"it was measured with {measured_programs}; this testbed runs {programs}")
    if baseline is not None and baseline != before:
        names = differ(names_of_changes(baseline, before))
        sentences.append(
            f"the settings in effect are not the ones it was measured against: {names}"
        )
    sentences += [f"{why}; it is set already, and stays" for why in inherited]
    return (*sentences, *remarks, *campaign_notes)
