"""Puts the parts of a campaign together: the only place that knows all of them by name."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from deploy.cell import CellSpec
from tuner.campaign.runner import Outcome, Runner
from tuner.campaign.spec import CampaignSpec, load_space
from tuner.campaign.stopping import stop_signals
from tuner.errors import ConflictError
from tuner.measure.driver import Workload, load_workload
from tuner.model import Campaign
from tuner.report.observer import Observer
from tuner.store import Store
from tuner.testbed.cell import CellTestbed, translated


@dataclass(frozen=True, slots=True)
class Prepared:
    """A campaign's specification with everything it names, looked up and checked."""

    spec: CampaignSpec
    workload: Workload
    testbed: CellTestbed


def prepare(spec: CampaignSpec, state_directory: Path, *, owned: bool = False) -> Prepared:
    """Look up what a specification names. Raises SpecError or TestbedError; nothing is done yet.

    ``owned``: the private cell, if it is up, was brought up by this campaign.
    """
    workload = load_workload(spec.workload)
    fileserver = spec.spaces.fileserver
    server_space = None if fileserver is None else load_space(fileserver, "fileserver")
    cache_space = load_space(spec.spaces.cache_manager, "cache_manager")
    cell = spec.testbed.cell
    with translated():
        cell_spec = CellSpec(cell.name, cell.clients, cell.link)
    testbed = CellTestbed(state_directory, cell_spec, server_space, cache_space, owned=owned)
    return Prepared(spec, workload, testbed)


def conduct(
    store: Store, campaign: Campaign, prepared: Prepared, observer: Observer, state_directory: Path
) -> Outcome:
    """Run a campaign, new or taken up again, in this process. Stop signals pause it."""
    with _alone(state_directory, campaign.id), stop_signals():
        runner = Runner(
            store, campaign.id, prepared.spec, prepared.workload, prepared.testbed, observer
        )
        return runner.run()


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
        try:
            yield
        finally:
            path.unlink(missing_ok=True)
