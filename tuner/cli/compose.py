"""Puts the parts of a campaign together: the only place that knows all of them by name.

What takes long to import, and has no use in every campaign or for whoever only prepares one, is
imported where it is put in: hosts by SSH, and the runner with its optimiser.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import search_spaces
from deploy.cell import CellError, CellSpec
from search_spaces import Form, Space
from tuner.campaign.checking import Hosts, check_plan
from tuner.campaign.holding import held
from tuner.campaign.identity import aspects
from tuner.campaign.lanes import Site
from tuner.campaign.rules import rules_of
from tuner.campaign.spec import (
    CampaignSpec,
    SpaceSection,
    TestbedSection,
    load_space,
    wrong_names,
)
from tuner.campaign.stopping import stop_signals
from tuner.errors import SpecError, TestbedError
from tuner.judge.pilot import Pilot
from tuner.measure.references import ReferencePlan
from tuner.measure.workload import Workload, load_workload
from tuner.model import Aspect, Campaign
from tuner.report.observer import Observer
from tuner.settings import Settings
from tuner.store import Store
from tuner.testbed.assembly import Wanted
from tuner.testbed.cell import FOUND_IN_NEW, CellTestbed, is_up, limits_of_new
from tuner.testbed.file import TestbedFile, read_testbed
from tuner.testbed.simulated import SimulatedTestbed
from tuner.testbed.simulated.document import world_of
from tuner.testbed.testbed import Testbed

if TYPE_CHECKING:
    from tuner.campaign.runner import Outcome


@dataclass(frozen=True, slots=True)
class Prepared:
    """A campaign's specification with everything it names, looked up and checked.

    ``places``: where it measures, and ``testbeds`` what is there, in the same order. ``aspects``:
    what it measures with; ``spaces``: by component, narrowed as it says; ``parameters``: all of
    them, by qualified name.
    """

    spec: CampaignSpec
    workload: Workload
    testbeds: tuple[Testbed, ...]
    places: tuple[Place, ...]
    aspects: Mapping[str, Aspect]
    spaces: Mapping[str, Space]
    parameters: frozenset[str]

    @property
    def testbed(self) -> Testbed:
        """The first one."""
        return self.testbeds[0]

    @property
    def place(self) -> Place:
        """All places as one."""
        if self.spec.testbed is not None:
            return self.places[0]
        named = [place.name for place in self.places if place.name]
        return Place(" + ".join(sorted(named)), "", _documents(self.places))

    def sites(self, campaign: str) -> list[Site]:
        """The testbeds as a run of a campaign uses them, each with a name of its own."""
        several = len(self.places) > 1
        return [
            Site(
                place.name or f"of campaign {campaign}" + (f", {number}" if several else ""),
                place.label or f"testbed {number}",
                testbed,
            )
            for number, (place, testbed) in enumerate(
                zip(self.places, self.testbeds, strict=True), start=1
            )
        ]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a campaign measures. ``name``: whatever has it is the same testbed, and used by one
    campaign at a time; empty for one that is the campaign's own. ``label``: a short one for people.
    ``document``: what must not change while a campaign lasts, as JSON.
    """

    name: str
    label: str
    document: Mapping[str, object]


def prepare(spec: CampaignSpec, state_directory: Path, *, owned: Collection[str] = ()) -> Prepared:
    """Look up what a specification names. Raises SpecError or TestbedError; nothing is done yet.

    ``owned``: the names of places whose private cell, if it is up, was brought up by this campaign;
    "" for its only one.
    """
    workload, spaces = _looked_up(spec)
    if wrong := wrong_names(spec, spaces):
        raise SpecError("; ".join(wrong))
    check_plan(spec, spaces, [_known(place, state_directory) for place in spec.places])
    _check_clients(spec, workload)
    places = tuple(_place(section, state_directory) for section in spec.places)
    _check_places(spec, places)
    testbeds = tuple(
        _testbed(
            spec,
            where,
            section,
            spaces,
            workload.components,
            state_directory,
            ("" if spec.testbed is not None else place.name) in owned,
        )
        for (where, section), place in zip(spec.named_places(), places, strict=True)
    )
    rules = rules_of(spec, workload)
    document = places[0].document if spec.testbed is not None else _documents(places)
    return Prepared(
        spec,
        workload,
        testbeds,
        places,
        aspects(spaces, workload, rules, document),
        spaces,
        frozenset(f"{c}.{p.name}" for c, space in spaces.items() for p in space.parameters),
    )


def _known(testbed: TestbedSection, state_directory: Path) -> Hosts | None:
    """The hosts of a private cell that is not up yet: they will be on this machine."""
    if testbed.cell is None:
        return None
    try:
        up = is_up(state_directory, testbed.cell.name)
    except (TestbedError, OSError):
        return None  # what is wrong with it is told where it is used
    return None if up else Hosts(limits_of_new(), FOUND_IN_NEW)


def _looked_up(spec: CampaignSpec) -> tuple[Workload, dict[str, Space]]:
    """The workload and the spaces that a specification names. Raises SpecError for all of those
    together that cannot be used.
    """
    found, wrong = dict[str, Space](), list[str]()
    workload: Workload | None = None
    try:
        workload = load_workload(spec.workload.name, spec.workload.scale)
    except SpecError as problem:
        wrong.append(str(problem))
    for component in ("fileserver", "cache_manager"):
        section: SpaceSection | None = getattr(spec.spaces, component)
        try:
            if section is not None:
                found[component] = load_space(section, component)
        except SpecError as problem:
            wrong.append(str(problem))
    if workload is None or wrong:
        raise SpecError("; ".join(wrong))
    return workload, found


def _documents(places: Sequence[Place]) -> dict[str, object]:
    return {"testbeds": {place.name or str(n): place.document for n, place in enumerate(places)}}


def _check_places(spec: CampaignSpec, places: Sequence[Place]) -> None:
    """Whether several places are different ones, and share no client. Raises SpecError."""
    names = [place.name for place in places if place.name]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise SpecError(f"testbeds: {twice[0]} is named twice")
    seen: dict[str, str] = {}
    for (where, section), place in zip(spec.named_places(), places, strict=True):
        for address in [] if section.hosts is None else _addresses(_file(section)):
            if address in seen:
                raise SpecError(f"{where}: {place.label} and {seen[address]} share {address}")
            seen[address] = place.label


def _file(section: TestbedSection) -> TestbedFile:
    """The testbed file of a place that names one."""
    assert section.hosts is not None
    return read_testbed(Path(section.hosts))


def _addresses(file: TestbedFile) -> list[str]:
    """The hosts of a testbed file, as they are reached; this one may serve several."""
    reached = [file.server.reach, *(client.reach for client in file.clients)]
    found = {f"host {reach.ssh.address}" for reach in reached if reach.ssh is not None}
    nodes = (reach.netns for reach in reached if reach.netns is not None)
    return sorted(found | {f"node {node.node} of cell {node.cell}" for node in nodes})


def _place(testbed: TestbedSection, state_directory: Path) -> Place:
    host = socket.gethostname()
    if (cell := testbed.cell) is not None:
        name = f"cell {cell.name} in {state_directory.absolute()} on {host}"
        return Place(name, f"cell {cell.name}", {"host": host, **cell.model_dump()})
    if testbed.hosts is not None:
        file = _file(testbed)
        # What is reached from this machine alone may have the same address on another one.
        here = "" if file.server.reach.ssh is not None else f" from {host}"
        name = f"fileserver {file.server.instance} at {file.server.address}{here}"
        return Place(name, Path(testbed.hosts).stem, {"server": name, **_hosts(file)})
    assert testbed.simulated is not None
    name = testbed.simulated.name or ""
    document = testbed.simulated.model_dump(mode="json")
    return Place(name and f"simulated {name}", name, document)


def _hosts(file: TestbedFile) -> dict[str, object]:
    """The hosts of a testbed file, without what only says how to get there."""
    return {
        "path": file.path,
        "volumes": list(file.server.volumes),
        "clients": {
            client.name: {
                "control": client.control.model_dump(mode="json"),
                "address": None if client.reach.ssh is None else client.reach.ssh.address,
            }
            for client in file.clients
        },
    }


def _testbed(
    spec: CampaignSpec,
    where: str,
    section: TestbedSection,
    spaces: dict[str, Space],
    components: Sequence[str],
    state_directory: Path,
    owned: bool,
) -> Testbed:
    cell, simulated = section.cell, section.simulated
    references = tuple(ReferencePlan(r.name, r.path, r.every) for r in spec.references)
    if cell is not None:
        _check_programs(spaces)
        try:
            cell_spec = CellSpec(cell.name, cell.clients, cell.link)
        except CellError as problem:
            raise SpecError(f"{where}.cell: {problem}") from problem
        wanted = Wanted(spaces.get("fileserver"), spaces["cache_manager"], references)
        return CellTestbed(state_directory, cell_spec, wanted, owned=owned)
    if section.hosts is not None:
        from tuner.testbed.hosts import HostsTestbed

        path = Path(section.hosts)
        file = read_testbed(path)
        _check_programs(spaces, file.clients[0].control.program)
        wanted = Wanted(spaces.get("fileserver"), spaces["cache_manager"], references)
        return HostsTestbed(file, path.parent, state_directory, wanted)
    assert simulated is not None
    world = world_of(simulated, spaces, components, f"{where}.simulated")
    return SimulatedTestbed(spaces, world, simulated.found, references)


def usual_wishes(file: TestbedFile) -> Wanted:
    """What a campaign may want of hosts at most: all that the packaged spaces search."""
    client = {"afsd": "linux", "afsd.fuse": "fuse"}[file.clients[0].control.program]
    return Wanted(
        search_spaces.load("openafs-fileserver-1.8"),
        search_spaces.load(f"openafs-cache-manager-{client}-1.8"),
    )


def _check_clients(spec: CampaignSpec, workload: Workload) -> None:
    """Whether the testbed has the clients that the workload makes sense on."""
    least = workload.spec.least_clients
    for where, section in spec.named_places():
        if section.cell is not None and section.cell.clients < least:
            raise SpecError(
                f"{where}.cell.clients: workload {workload.spec.name} is for {least} clients at "
                f"least, this cell has {section.cell.clients}"
            )


def _check_programs(spaces: dict[str, Space], client: str = "afsd.fuse") -> None:
    """Whether the spaces are of the programs that a cell or a host by a testbed file runs."""
    programs = {"fileserver": "dafileserver", "cache_manager": client}
    for component, space in spaces.items():
        if space.program != programs[component] or space.form is not Form.LIBCMD:
            raise SpecError(
                f"spaces.{component}: {space.name} is not for what this testbed runs "
                f"({programs[component]} of OpenAFS 1.8)"
            )


def conduct(
    store: Store,
    campaign: Campaign,
    prepared: Prepared,
    observer: Observer,
    *,
    pilot_only: bool = False,
    stopping: Callable[[str], None] | None = None,
) -> tuple[Outcome, Pilot | None]:
    """Run a campaign, new or resumed, in this process. Stop signals pause it.

    Returns how it ended, and what its pilot found. ``pilot_only``: pause when the pilot ends.
    ``stopping``: is told at once of a stop signal, in its handler; the observer when it is None.
    Raises ConflictError when another process runs it or uses one of its testbeds.
    """
    from tuner.campaign.runner import Runner

    sites = prepared.sites(campaign.id)
    names = [site.name for site in sites if site.name is not None]
    limit_s = Settings().takeover_after_s
    with (
        stop_signals(stopping or observer.doing),
        held(store, campaign.id, names, limit_s) as holding,
    ):
        runner = Runner(
            store,
            campaign.id,
            prepared.spec,
            prepared.workload,
            sites,
            observer,
            aspects=prepared.aspects,
            held=holding,
            pilot_only=pilot_only,
        )
        return runner.run(), runner.pilot
