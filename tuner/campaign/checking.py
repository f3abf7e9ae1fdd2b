"""Whether a campaign file can be run at all, as far as that follows from the file. Pure.

Owns what is refused before a campaign is stored: configurations that no host would take, and a
campaign that has nothing to try. What only the hosts know is checked once they are there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from search_spaces import Space
from tuner.campaign.spec import CampaignSpec, SpaceSection
from tuner.errors import SpecError
from tuner.model import Configuration, Value
from tuner.testbed.simulated.testbed import FACTS


@dataclass(frozen=True, slots=True)
class Hosts:
    """What is known of a testbed's hosts before it is ready. ``facts``: what they allow, by the
    names that spaces use; ``found``: what will be found in effect, by qualified name.
    """

    facts: Mapping[str, int]
    found: Mapping[str, Value]


def check_plan(
    spec: CampaignSpec, spaces: Mapping[str, Space], hosts: Sequence[Hosts | None] = ()
) -> None:
    """Raise SpecError, naming every mistake, unless a campaign has something valid to try.

    ``hosts``: of each of its testbeds, in their order; None where nothing is known of them.
    """
    known = hosts or [None for _ in spec.places]
    if wrong := [*_wrong_first(spec, spaces, known), *_nothing_to_try(spec, spaces)]:
        raise SpecError("; ".join(dict.fromkeys(wrong)))


def _wrong_first(
    spec: CampaignSpec, spaces: Mapping[str, Space], hosts: Sequence[Hosts | None]
) -> Iterator[str]:
    """What is wrong with the first configurations: on any host, or on those whose limits are
    known.
    """
    for number, values in enumerate(spec.first):
        for place, told in zip(spec.places, hosts, strict=True):
            known = told
            if place.simulated is not None:
                known = Hosts(FACTS, place.simulated.found)
            found = {} if known is None else known.found
            configuration = Configuration.of({**found, **values})
            for component, space in spaces.items():
                own = configuration.part(component)
                wrong = (
                    space.impossible(own) if known is None else space.violations(own, known.facts)
                )
                yield from (f"first.{number}: {component}: {said}" for said in wrong)


def _nothing_to_try(spec: CampaignSpec, spaces: Mapping[str, Space]) -> Iterator[str]:
    sections: list[SpaceSection] = [getattr(spec.spaces, component) for component in spaces]
    given = spec.first or any(section.fix or section.presets for section in sections)
    if not given and not any(space.searched for space in spaces.values()):
        yield (
            "spaces: nothing is searched, so that there is nothing to try; leave out 'only', or "
            "name parameters in it"
        )
