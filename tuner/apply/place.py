"""Where a configuration is applied: the testbed of its campaign, or another one."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

from tuner.applications import Application
from tuner.campaign.spec import CampaignSpec
from tuner.campaign.testbed_section import TestbedSection
from tuner.compose import looked_up
from tuner.errors import NotFoundError, SpecError
from tuner.measure.workload import Workload, load_workload
from tuner.model import Answer, Campaign, Recommendation
from tuner.services.kind import Place, Wish
from tuner.services.lasting import LastingTestbed
from tuner.services.testbed import Testbed

_WHERE = "testbed"


@dataclass(frozen=True, slots=True)
class Site:
    """A testbed of an application. ``name``: whatever has it is the same testbed; ``label``: a
    short one for people; ``other``: it is not one that the campaign was measured on.
    """

    section: TestbedSection
    spec: CampaignSpec
    wish: Wish
    state_directory: Path
    name: str
    label: str
    other: bool

    @classmethod
    def of(cls, campaign: Campaign, state_directory: Path, file: Path | None = None) -> Site:
        """That of a campaign; ``file``: a testbed file in its place. Raises SpecError."""
        spec = CampaignSpec.from_json(campaign.spec)
        if file is not None:
            section = _section({"hosts": str(file.absolute())})
        elif spec.testbed is not None:
            section = spec.testbed
        else:
            raise SpecError("the campaign has several testbeds: name one with --testbed FILE")
        return cls._made(campaign, spec, section, state_directory)

    @classmethod
    def stored(cls, campaign: Campaign, application: Application, state_directory: Path) -> Site:
        """That of an application. Raises SpecError, as when its testbed file is gone."""
        spec = CampaignSpec.from_json(campaign.spec)
        return cls._made(campaign, spec, _section(json.loads(application.section)), state_directory)

    @classmethod
    def _made(
        cls, campaign: Campaign, spec: CampaignSpec, section: TestbedSection, directory: Path
    ) -> Site:
        wish = replace(looked_up(spec), references=())
        place = section.way.place(section.section, directory)
        name = _name(place, campaign)
        measured = {_name(p.way.place(p.section, directory), campaign) for p in spec.places}
        label = place.label or section.way.summary(section.section)
        return cls(section, spec, wish, directory, name, label, name not in measured)

    @property
    def document(self) -> str:
        """The section as JSON, for ``stored``."""
        told = {self.section.key: getattr(self.section, self.section.key)}
        return json.dumps(
            {k: v if isinstance(v, str) else v.model_dump(mode="json") for k, v in told.items()}
        )

    def lasting(self, *, putting_back: bool = False) -> LastingTestbed:
        """See Way.lasting."""
        way, section = self.section.way, self.section.section
        return way.lasting(
            section, _WHERE, self.wish, self.state_directory, putting_back=putting_back
        )

    def measuring(self) -> Testbed:
        """The testbed as a campaign uses it."""
        return self.lasting()


def _name(place: Place, campaign: Campaign) -> str:
    return place.name or f"of campaign {campaign.id}"


def _section(document: object) -> TestbedSection:
    return TestbedSection.model_validate(document)


def health() -> Workload:
    """What a client does to show that the service works."""
    return load_workload(str(Path(__file__).with_name("health.yaml")))


def recommended(campaign: Campaign) -> Recommendation:
    """The configuration to apply. Raises NotFoundError when the campaign recommends none."""
    found = campaign.recommendation
    if found is None:
        raise NotFoundError(
            f"campaign {campaign.id} is {campaign.state} and recommends nothing yet"
        )
    if found.answer is not Answer.RECOMMENDED:
        raise NotFoundError(
            f"campaign {campaign.id} found nothing better than what it found: there is nothing to "
            "apply"
        )
    return found
