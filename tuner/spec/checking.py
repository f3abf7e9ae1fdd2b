"""Check whether a campaign file can be run at all, as far as the file itself shows. Pure.

Owns what is refused before a campaign is stored: configurations that no host would accept, and
campaigns with nothing to try. What depends on the hosts is checked once they are reachable.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from search_spaces import Space
from tuner.errors import SpecError
from tuner.model import Configuration
from tuner.services.kind import Preview
from tuner.spec.campaign import CampaignSpec
from tuner.spec.values import given_values, laid_over


def check_plan(
    spec: CampaignSpec, spaces: Mapping[str, Space], services: Sequence[Preview | None]
) -> None:
    """Raise SpecError, naming every mistake, unless a campaign has something valid to try.

    ``services``: a preview of each of its testbeds; None for one of which nothing is known.
    """
    if wrong := [*_wrong_first(spec, spaces, services), *_nothing_to_try(spec, spaces)]:
        raise SpecError("; ".join(dict.fromkeys(wrong)))


def _wrong_first(
    spec: CampaignSpec, spaces: Mapping[str, Space], services: Sequence[Preview | None]
) -> Iterator[str]:
    """Yield problems of the given configurations, checked against the hosts' limits where known."""
    parameters = {f"{part}.{name}" for part, space in spaces.items() for name in space.by_name}
    for where, values in given_values(spec):
        for hosts in services:
            # A space supplied by the campaign need not cover every setting that will be found.
            own_settings = {} if hosts is None else hosts.initial
            relevant = {name: value for name, value in own_settings.items() if name in parameters}
            initial = Configuration.of(relevant)
            configuration = laid_over(initial, values, spaces)
            for part, space in spaces.items():
                own = configuration.part(part)
                wrong = (
                    space.impossible(own)
                    if hosts is None
                    else space.violations(own, hosts.facts, initial.part(part))
                )
                yield from (f"{where}: {part}: {problem}" for problem in wrong)


def _nothing_to_try(spec: CampaignSpec, spaces: Mapping[str, Space]) -> Iterator[str]:
    sections = [spec.spaces[part] for part in spaces]
    values = given_values(spec) or any(section.fix or section.presets for section in sections)
    if not values and not any(space.searched for space in spaces.values()):
        yield (
            "spaces: no parameter is searched, so there is nothing to try; leave out 'only', or "
            "name parameters in it"
        )
