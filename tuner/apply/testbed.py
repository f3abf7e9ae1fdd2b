"""Where a configuration is applied: the testbed of its campaign, or another one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from tuner.applications import Application
from tuner.compose import look_up
from tuner.errors import ConflictError, NotFoundError, SpecError
from tuner.measure.workload import Workload, load_workload
from tuner.model import Answer, Campaign, Recommendation
from tuner.services.kind import Needs, TestbedIdentity
from tuner.services.kinds import type_of_file
from tuner.services.lasting import LastingTestbed
from tuner.spec.campaign import CampaignSpec
from tuner.spec.testbed_section import TestbedSection

_WHERE = "testbed"
_HEALTH = Path(__file__).with_name("health.yaml")


@dataclass(frozen=True, slots=True)
class Destination:
    """The testbed of an application. ``name``: its identity; ``label``: a short name for people;
    ``other``: whether the campaign was not measured on it; ``clients``: see ``TestbedIdentity``.
    """

    section: TestbedSection
    spec: CampaignSpec
    needs: Needs
    state_directory: Path
    name: str
    label: str
    other: bool
    clients: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        campaign: Campaign,
        state_directory: Path,
        file: Path | None = None,
        *,
        measures: bool = False,
    ) -> Destination:
        """The testbed of a campaign, or the one described by the testbed file ``file``.
        ``measures``: see ``of_application``. Raises SpecError.
        """
        spec = CampaignSpec.from_json(campaign.spec)
        if file is not None:
            section = _section({type_of_file(file).key: str(file.absolute())})
        elif spec.testbed is not None:
            section = spec.testbed
        else:
            raise SpecError("the campaign has several testbeds: name one with --testbed FILE")
        return cls._for_section(campaign, spec, section, state_directory, measures=measures)

    @classmethod
    def of_application(
        cls,
        campaign: Campaign,
        application: Application,
        state_directory: Path,
        *,
        measures: bool = False,
    ) -> Destination:
        """The testbed of an application. ``measures``: whether the workload is going to be
        measured; otherwise it may be missing.

        Raises SpecError, for example when the testbed file is missing; ConflictError when the file
        now describes another testbed, or the same with other clients.
        """
        spec = CampaignSpec.from_json(campaign.spec)
        section = _section(json.loads(application.section))
        destination = cls._for_section(campaign, spec, section, state_directory, measures=measures)
        if destination.name != application.testbed:
            raise ConflictError(
                f"{application.id} is for {application.testbed}, but its testbed file now names "
                f"{destination.name}: restore the file as it was"
            )
        if application.clients and application.clients != destination.clients:
            raise ConflictError(
                f"{application.id} is for {_clients(application.clients)}, but its testbed file "
                f"now names {_clients(destination.clients)}: write the address of each client as "
                "it was, since an IP address and a name are never taken for the same host"
            )
        return destination

    @classmethod
    def _for_section(
        cls,
        campaign: Campaign,
        spec: CampaignSpec,
        section: TestbedSection,
        directory: Path,
        *,
        measures: bool = False,
    ) -> Destination:
        needs = replace(_needs_of(spec, measures=measures), references=())
        identity = section.type.identity(section.section, directory)
        name = _name(identity, campaign)
        label = identity.label or section.type.summary(section.section)
        other = (name, identity.clients) not in _testbeds_of(campaign, spec, directory)
        return cls(section, spec, needs, directory, name, label, other, identity.clients)

    @property
    def document(self) -> str:
        """The testbed section as JSON, for ``of_application``."""
        return self.section.model_dump_json()

    def lasting(self, *, putting_back: bool = False) -> LastingTestbed:
        """See TestbedType.lasting."""
        testbed, section = self.section.type, self.section.section
        return testbed.lasting(
            section, _WHERE, self.needs, self.state_directory, putting_back=putting_back
        )


def _name(identity: TestbedIdentity, campaign: Campaign) -> str:
    return identity.name or f"of campaign {campaign.id}"


def _clients(hosts: Sequence[str]) -> str:
    return f"{'client' if len(hosts) == 1 else 'clients'} {', '.join(hosts)}"


def _testbeds_of(
    campaign: Campaign, spec: CampaignSpec, directory: Path
) -> set[tuple[str, tuple[str, ...]]]:
    """The names and clients of the testbeds that a campaign was measured on, except those with a
    missing file.
    """
    testbeds = set()
    for section in spec.sections:
        with suppress(SpecError):
            identity = section.type.identity(section.section, directory)
            testbeds.add((_name(identity, campaign), identity.clients))
    return testbeds


def _needs_of(spec: CampaignSpec, *, measures: bool) -> Needs:
    """What a specification refers to. If its workload is missing and not going to be measured, the
    health check workload takes its place.
    """
    if not measures:
        try:
            load_workload(spec.workload.name, spec.workload.scale)
        except SpecError:
            usual = spec.workload.model_copy(update={"name": str(_HEALTH), "scale": 1.0})
            return look_up(spec.model_copy(update={"workload": usual}))
    return look_up(spec)


def _section(document: object) -> TestbedSection:
    return TestbedSection.model_validate(document)


def health() -> Workload:
    """The workload that checks that the service works."""
    return load_workload(str(_HEALTH))


def recommended(campaign: Campaign) -> Recommendation:
    """The campaign's recommendation. Raises NotFoundError when there is none to apply."""
    answer = campaign.recommendation
    if answer is None:
        raise NotFoundError(
            f"campaign {campaign.id} is {campaign.state} and recommends nothing yet"
        )
    if answer.answer is not Answer.RECOMMENDED:
        raise NotFoundError(
            f"campaign {campaign.id} found nothing better than the baseline: there is nothing to "
            "apply"
        )
    return answer
