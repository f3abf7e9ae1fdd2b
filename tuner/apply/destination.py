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
    ``other``: whether the campaign was not measured on it; ``clients``: see ``TestbedIdentity``;
    ``left_out``: clients of an application that its testbed file no longer names, because they are
    gone for good: whatever is restored is not restored there.
    """

    section: TestbedSection
    spec: CampaignSpec
    needs: Needs
    state_directory: Path
    name: str
    label: str
    other: bool
    clients: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()

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
        left_out: Sequence[str] = (),
    ) -> Destination:
        """The testbed of an application. ``measures``: whether the workload is going to be
        measured; otherwise it may be missing. ``left_out``: see ``Destination``.

        Raises SpecError, for example when the testbed file is missing or ``left_out`` names no
        client of the application; ConflictError when the file now describes another testbed, or the
        same with other clients, or still names one that is ``left_out``.
        """
        spec = CampaignSpec.from_json(campaign.spec)
        section = _section(json.loads(application.section))
        destination = cls._for_section(campaign, spec, section, state_directory, measures=measures)
        if destination.name != application.testbed:
            raise ConflictError(
                f"{application.id} is for {application.testbed}, but its testbed file now names "
                f"{destination.name}: restore the file as it was"
            )
        _check_clients(application, destination.clients, left_out)
        return replace(destination, left_out=tuple(sorted(set(left_out))))

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
    def not_restored(self) -> str:
        """A clause on the clients that are left out; empty if there are none."""
        if not self.left_out:
            return ""
        return f"{_clients(self.left_out)} left out, so not restored"

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


def _check_clients(application: Application, now: Sequence[str], left_out: Sequence[str]) -> None:
    """Check that a testbed file names the clients of an application, except those left out. An
    application of an earlier release has no record of them. Raises SpecError, ConflictError.
    """
    name, clients = application.id, application.clients
    if strange := sorted(set(left_out) - set(clients)):
        whose = f"is for {_clients(clients)}" if clients else "has no record of its clients"
        raise SpecError(f"--without: {', '.join(strange)}: {name} {whose}")
    if still := sorted(set(left_out) & set(now)):
        raise ConflictError(
            f"--without: the testbed file of {name} still names {_clients(still)}: take out of the "
            "file what is to be left out"
        )
    if clients and [one for one in clients if one not in left_out] != list(now):
        raise ConflictError(
            f"{name} is for {_clients(clients)}, but its testbed file now names {_clients(now)}: "
            "write the address of each client as it was, since an IP address and a name are never "
            "taken for the same host; or if a client is gone for good, take it out of the file "
            f"and leave it out with: fstune rollback {name} --without CLIENT"
        )


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
