"""Puts the parts of a campaign together: the only place that knows all of them by name."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import search_spaces
from deploy.cell import CellError, CellSpec
from search_spaces import Form, Space
from tuner.campaign.runner import Outcome, Runner
from tuner.campaign.spec import CampaignSpec, check_parameters, load_space
from tuner.campaign.stopping import stop_signals
from tuner.errors import ConflictError, SpecError
from tuner.judge.pilot import Pilot
from tuner.measure.references import ReferencePlan
from tuner.measure.workload import Workload, load_workload
from tuner.model import Campaign
from tuner.report.observer import Observer
from tuner.store import Store
from tuner.testbed.assembly import Wanted
from tuner.testbed.cell import CellTestbed
from tuner.testbed.file import read_testbed
from tuner.testbed.hosts import HostsTestbed
from tuner.testbed.simulated import Effect, SimulatedTestbed, World
from tuner.testbed.testbed import Testbed


@dataclass(frozen=True, slots=True)
class Prepared:
    """A campaign's specification with everything it names, looked up and checked."""

    spec: CampaignSpec
    workload: Workload
    testbed: Testbed


def prepare(spec: CampaignSpec, state_directory: Path, *, owned: bool = False) -> Prepared:
    """Look up what a specification names. Raises SpecError or TestbedError; nothing is done yet.

    ``owned``: the private cell, if it is up, was brought up by this campaign.
    """
    workload = load_workload(spec.workload.name, spec.workload.scale)
    spaces = {"cache_manager": load_space(spec.spaces.cache_manager, "cache_manager")}
    if spec.spaces.fileserver is not None:
        spaces = {"fileserver": load_space(spec.spaces.fileserver, "fileserver"), **spaces}
    check_parameters(spec, spaces)
    _check_clients(spec, workload)
    return Prepared(spec, workload, _testbed(spec, spaces, state_directory, owned))


def _testbed(
    spec: CampaignSpec, spaces: dict[str, Space], state_directory: Path, owned: bool
) -> Testbed:
    cell, simulated = spec.testbed.cell, spec.testbed.simulated
    references = tuple(ReferencePlan(r.name, r.path, r.every) for r in spec.references)
    if cell is not None:
        _check_programs(spaces)
        try:
            cell_spec = CellSpec(cell.name, cell.clients, cell.link)
        except CellError as problem:
            raise SpecError(f"testbed.cell: {problem}") from problem
        wanted = Wanted(spaces.get("fileserver"), spaces["cache_manager"], references)
        return CellTestbed(state_directory, cell_spec, wanted, owned=owned)
    if spec.testbed.hosts is not None:
        _check_programs(spaces)
        path = Path(spec.testbed.hosts)
        wanted = Wanted(spaces.get("fileserver"), spaces["cache_manager"], references)
        return HostsTestbed(read_testbed(path), path.parent, state_directory, wanted)
    assert simulated is not None
    world = World(
        effects=tuple(
            Effect(**effect.model_dump(exclude_none=True)) for effect in simulated.effects
        ),
        noise=simulated.noise,
        block_noise=simulated.block_noise,
        seed=simulated.seed,
        references=simulated.references,
    )
    return SimulatedTestbed(spaces, world, simulated.found, references)


def usual_wishes() -> Wanted:
    """What a campaign may want of hosts at most: all that the packaged spaces search."""
    return Wanted(
        search_spaces.load("openafs-fileserver-1.8"),
        search_spaces.load("openafs-cache-manager-fuse-1.8"),
    )


def _check_clients(spec: CampaignSpec, workload: Workload) -> None:
    """Whether the testbed has the clients that the workload makes sense on."""
    cell, least = spec.testbed.cell, workload.spec.least_clients
    if cell is not None and cell.clients < least:
        raise SpecError(
            f"testbed.cell.clients: workload {workload.spec.name} is for {least} clients at least, "
            f"this cell has {cell.clients}"
        )


def _check_programs(spaces: dict[str, Space]) -> None:
    """Whether the spaces are of the programs that a cell or a host by a testbed file runs."""
    programs = {"fileserver": "dafileserver", "cache_manager": "afsd.fuse"}
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
    state_directory: Path,
    *,
    pilot_only: bool = False,
) -> tuple[Outcome, Pilot | None]:
    """Run a campaign, new or taken up again, in this process. Stop signals pause it.

    Returns how it ended, and what its pilot found. ``pilot_only``: pause when the pilot ends.
    """
    with _alone(state_directory, campaign.id), stop_signals():
        runner = Runner(
            store,
            campaign.id,
            prepared.spec,
            prepared.workload,
            prepared.testbed,
            observer,
            pilot_only=pilot_only,
        )
        return runner.run(), runner.pilot


@contextmanager
def _alone(state_directory: Path, campaign: str) -> Iterator[None]:
    """Hold the campaign for this process. Raises ConflictError when another one runs it."""
    locks = state_directory / "locks"
    locks.mkdir(parents=True, exist_ok=True)
    path = locks / f"campaign-{campaign}.lock"
    with path.open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConflictError(f"campaign {campaign} is being run by another process") from None
        yield  # the file stays: removing it would let two others each lock one of their own
