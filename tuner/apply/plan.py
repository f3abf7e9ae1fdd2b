"""What an application would change: from what is in effect to what is recommended. Pure.

A plan has an identity, a hash of what is in effect and what shall be: whoever agrees to a plan
agrees to this change and to no other.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256

from search_spaces import Space
from tuner.model import Configuration, Value
from tuner.records.differences import Difference, differences

_LENGTH = 32


@dataclass(frozen=True, slots=True)
class PartPlan:
    """What changes in one part. ``old`` and ``new``: its options as they are and as they shall be;
    ``outlives_restart`` and ``where_kept``: see ``LastingPart``.
    """

    component: str
    program: str
    changes: tuple[Difference, ...]
    old: tuple[str, ...]
    new: tuple[str, ...]
    outlives_restart: bool
    where_kept: str


@dataclass(frozen=True, slots=True)
class ApplyPlan:
    """A plan. ``testbed``: the name of the place, ``label`` for people; ``programs``: programs
    and versions there; ``parts``: those that change; ``steps``: the configurations to bring into
    effect, the last of which is ``after``; ``notes``: sentences to be read before.
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

    @property
    def identity(self) -> str:
        """See ``plan_identity``."""
        return plan_identity(self.testbed, self.programs, self.before, self.after, self.stepwise)

    @property
    def is_empty(self) -> bool:
        """Whether what is recommended is in effect already."""
        return not self.parts


def plan_identity(
    testbed: str, programs: str, before: Configuration, after: Configuration, stepwise: bool
) -> str:
    """Equal for two plans that do the same to the same: 32 hexadecimal digits."""
    items = [testbed, programs, before.items, after.items, stepwise]
    return sha256(json.dumps(items, ensure_ascii=True).encode()).hexdigest()[:_LENGTH]


def changed_parts(before: Configuration, after: Configuration) -> frozenset[str]:
    """The components that two configurations set differently."""
    return frozenset(one.name.partition(".")[0] for one in differences(before, after)[0])


def unfit(after: Configuration, spaces: Mapping[str, Space]) -> list[str]:
    """Why a configuration cannot be applied whatever is in effect, a sentence each: a campaign may
    come from elsewhere, and say anything.
    """
    problems = []
    for name, _ in after:
        part, _, parameter = name.partition(".")
        if part not in spaces or parameter not in spaces[part].by_name:
            problems.append(f"no search space of the campaign has {name}")
    if not problems:
        for part, space in spaces.items():
            problems += [f"{part}: {why}" for why in space.impossible(after.part(part))]
    return problems


def steps(
    before: Configuration,
    after: Configuration,
    spaces: Mapping[str, Space],
    facts: Mapping[str, Mapping[str, int]],
) -> tuple[Configuration, ...]:
    """One changed setting after the other, servers before clients and by name within a part.

    A setting that breaks a rule of its search space without another one waits for that one; where
    no single setting can come next, all that are left come at once.
    """
    order = list(spaces)
    changes = sorted(
        differences(before, after)[0],
        key=lambda one: (order.index(one.name.partition(".")[0]), one.name),
    )
    allowed = _broken(before, spaces, facts) | _broken(after, spaces, facts)
    now, plan = before, list[Configuration]()
    while changes:
        single = ((one, _with(now, [one])) for one in changes)
        fits = ((one, to) for one, to in single if _broken(to, spaces, facts) <= allowed)
        one, now = next(fits, (None, after))
        plan.append(now)
        changes = [other for other in changes if one is not None and other != one]
    return tuple(plan)


def _with(configuration: Configuration, changes: Sequence[Difference]) -> Configuration:
    values: dict[str, Value] = configuration.as_dict()
    for change in changes:
        values.pop(change.name, None)
        if change.new is not None:
            values[change.name] = change.new
    return Configuration.of(values)


def _broken(
    configuration: Configuration,
    spaces: Mapping[str, Space],
    facts: Mapping[str, Mapping[str, int]],
) -> frozenset[str]:
    """The rules of the search spaces that a configuration breaks, as sentences."""
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
) -> tuple[str, ...]:
    """What must be known before a plan is agreed to. ``baseline``: what the campaign measured
    against; ``measured_programs``: with which programs; ``other_testbed``: it was measured
    elsewhere.
    """
    sentences = []
    if other_testbed:
        sentences.append("it was measured on another testbed: what wins there need not win here")
    if measured_programs and measured_programs != programs:
        sentences.append(f"it was measured with {measured_programs}; here runs {programs}")
    if baseline is not None and baseline != before:
        names = ", ".join(one.name for one in differences(baseline, before)[0])
        sentences.append(f"what is in effect is not what it was measured against: {names} differ")
    return (*sentences, *remarks, *campaign_notes)
