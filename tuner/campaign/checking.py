"""Whether a campaign file can be run at all, as far as that follows from the file. Pure.

Owns what is refused before a campaign is stored: configurations that no host would take, and a
campaign that has nothing to try. What only the hosts know is checked once they are there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from search_spaces import Space
from tuner.campaign.spec import CampaignSpec, SpaceSection
from tuner.errors import SpecError
from tuner.model import Configuration, Value
from tuner.services.simulated.testbed import FACTS


def check_plan(spec: CampaignSpec, spaces: Mapping[str, Space]) -> None:
    """Raise SpecError, naming every mistake, unless a campaign has something valid to try."""
    if wrong := [*_wrong_first(spec, spaces), *_nothing_to_try(spec, spaces)]:
        raise SpecError("; ".join(dict.fromkeys(wrong)))


def _wrong_first(spec: CampaignSpec, spaces: Mapping[str, Space]) -> Iterator[str]:
    """What is wrong with the first configurations: on any host, or on a simulated one, whose limits
    are known.
    """
    for number, values in enumerate(spec.first):
        for place in spec.places:
            found: Mapping[str, Value] = {}
            if place.simulated is not None:
                found = place.simulated.found
            configuration = Configuration.of({**found, **values})
            for component, space in spaces.items():
                own = configuration.part(component)
                simulated = place.simulated is not None
                wrong = space.violations(own, FACTS) if simulated else space.impossible(own)
                yield from (f"first.{number}: {component}: {said}" for said in wrong)


def _nothing_to_try(spec: CampaignSpec, spaces: Mapping[str, Space]) -> Iterator[str]:
    sections: list[SpaceSection] = [getattr(spec.spaces, component) for component in spaces]
    given = spec.first or any(section.fix or section.presets for section in sections)
    if not given and not any(space.searched for space in spaces.values()):
        yield (
            "spaces: nothing is searched, so that there is nothing to try; leave out 'only', or "
            "name parameters in it"
        )
