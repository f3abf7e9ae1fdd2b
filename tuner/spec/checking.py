"""Check whether a campaign file can be run at all, as far as the file itself shows. Pure.

Owns what is refused before a campaign is stored: configurations that no host would accept, and
campaigns with nothing to try. What depends on the hosts is checked once they are reachable.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from search_spaces import Chance, Space, SpaceError, draw
from tuner.documents import in_one_line
from tuner.errors import SpecError
from tuner.judge.evalue import MIN_PAIRS
from tuner.model import Configuration, Value
from tuner.services.kind import Preview
from tuner.spec.campaign import CampaignSpec
from tuner.spec.values import given_values, laid_over

#: Draws in which something impossible would show, and something that can be changed.
_DRAWS = 20


def check_plan(
    spec: CampaignSpec, spaces: Mapping[str, Space], services: Sequence[Preview | None]
) -> None:
    """Raise SpecError, naming every mistake, unless a campaign has something valid to try.

    ``services``: a preview of each of its testbeds; None for one of which nothing is known.
    """
    wrong = [*_wrong_first(spec, spaces, services), *_nothing_to_try(spec, spaces), *_too_few(spec)]
    for hosts in services:
        if hosts is not None:
            wrong += _unsearchable(spec, spaces, hosts)
    if wrong:
        raise SpecError(in_one_line(list(dict.fromkeys(wrong))))


def _wrong_first(
    spec: CampaignSpec, spaces: Mapping[str, Space], services: Sequence[Preview | None]
) -> Iterator[str]:
    """Yield problems of the given configurations, checked against the hosts' limits where known."""
    for where, values in given_values(spec):
        for hosts in services:
            initial = Configuration() if hosts is None else _relevant(hosts, spaces)
            configuration = laid_over(initial, values, spaces)
            for part, space in spaces.items():
                own = configuration.part(part)
                wrong = (
                    space.impossible(own)
                    if hosts is None
                    else space.violations(own, hosts.facts, initial.part(part))
                )
                yield from (f"{where}: {part}: {problem}" for problem in wrong)


def _relevant(hosts: Preview, spaces: Mapping[str, Space]) -> Configuration:
    """The settings in effect that the spaces know: one supplied by the campaign need not cover
    every setting that will be found.
    """
    parameters = {f"{part}.{name}" for part, space in spaces.items() for name in space.by_name}
    return Configuration.of({n: v for n, v in hosts.initial.items() if n in parameters})


def wrong_on(space: Space, facts: Mapping[str, int], initial: Mapping[str, Value]) -> Iterator[str]:
    """Yield why a narrowed space cannot be searched on a host with these facts and settings."""
    own = {name: value for name, value in initial.items() if name in space.by_name}
    fixed = {p.name: p.fixed for p in space.parameters if p.fixed is not None}
    where = "fix: " if fixed else ""
    try:
        if fixed:
            # What was found gives way to it, as in every configuration of the campaign.
            values = space.fit(own, facts, own) | fixed
            yield from (f"{where}{problem}" for problem in space.violations(values, facts, own))
        for number in range(_DRAWS):
            draw(space, Chance(number, number / (_DRAWS - 1)), facts, own)
    except SpaceError as problem:
        yield f"{where}{problem}"


def _unsearchable(spec: CampaignSpec, spaces: Mapping[str, Space], hosts: Preview) -> Iterator[str]:
    """Yield why the spaces cannot be searched on a testbed, or why nothing differs from the
    settings in effect there.
    """
    initial = _relevant(hosts, spaces)
    problems = [
        f"spaces.{part}: {problem}"
        for part, space in spaces.items()
        for problem in wrong_on(space, hosts.facts, initial.part(part))
    ]
    yield from problems
    searched = [(part, p) for part, space in spaces.items() for p in space.searched]
    if problems or not searched or _gives_values(spec, spaces):
        return
    unchanged = (
        draw(space, Chance(number, 1.0), hosts.facts, initial.part(part)) == initial.part(part)
        for part, space in spaces.items()
        for number in range(_DRAWS)
    )
    if all(unchanged):
        whys = [f"{part}.{p.name}: {p.only_if.why}" for part, p in searched if p.only_if]
        why = f" ({'; '.join(whys)})" if whys else ""
        yield f"spaces: nothing that is searched can be changed on this testbed{why}"


def _gives_values(spec: CampaignSpec, spaces: Mapping[str, Space]) -> bool:
    sections = [spec.spaces[part] for part in spaces]
    return bool(given_values(spec)) or any(each.fix or each.presets for each in sections)


def _nothing_to_try(spec: CampaignSpec, spaces: Mapping[str, Space]) -> Iterator[str]:
    if not _gives_values(spec, spaces) and not any(space.searched for space in spaces.values()):
        yield (
            "spaces: no parameter is searched, so there is nothing to try; leave out 'only', or "
            "name parameters in it"
        )


def _too_few(spec: CampaignSpec) -> Iterator[str]:
    """Yield whether the first fresh blocks, one on each testbed at once, are more than an attempt
    may have: its error holds for that many.
    """
    count = len(spec.sections)
    if spec.certification.blocks < count:
        yield (
            f"certification.blocks: {count} testbeds measure {count} blocks at once; allow at "
            f"least {count}"
        )


def check_measurements(spec: CampaignSpec) -> None:
    """Raise SpecError if a comparison would exceed its budget: nothing is known before a few
    blocks, and every block measures all configurations, on each of several testbeds.
    """
    most, testbeds = spec.budget.measurements, len(spec.sections)
    blocks = math.ceil(MIN_PAIRS / testbeds) * testbeds
    pilot_runs = 2 * min(spec.pilot.blocks, blocks)
    runs = blocks * (1 + len(spec.compare)) + pilot_runs
    if spec.compare and most is not None and most < runs:
        less = ", or leave out the pilot" if pilot_runs else ""
        raise SpecError(
            f"budget.measurements: this comparison takes at least {runs}, not {most}; allow more, "
            f"or compare fewer configurations{less}"
        )
