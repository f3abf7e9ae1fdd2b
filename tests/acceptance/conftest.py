"""A small campaign on a real cell, as a user would write and run it; and hosts over SSH."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import yaml

from deploy.cell import Cell, Cells, CellSpec
from tests.acceptance.campaigns import THREADS
from tests.acceptance.files import FSTUNE, careless_space, small_workload
from tests.acceptance.lab import Lab, Labs
from tests.killing import Forks, forks
from tests.unit.campaign import outcomes
from tuner.model import Block, Campaign, Event, Trial
from tuner.store import Store

FIRST = [
    {"fileserver.vlru_interval": 0},
    {"fileserver.udp_buffer": 1 << 28},
    {"fileserver.threads": 20},
]


@dataclass(frozen=True)
class Place:
    """A separate state directory, with a campaign file for a separate cell."""

    directory: Path
    cell: str

    @property
    def state(self) -> Path:
        return self.directory / "state"

    @property
    def campaign_file(self) -> Path:
        return self.directory / "campaign.yaml"

    def fstune(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the console script to completion."""
        return subprocess.run(
            [FSTUNE, *arguments],
            env=self.environment,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=300,
            check=False,
        )

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start the console script; standard output and error are one pipe."""
        return subprocess.Popen(
            [FSTUNE, *arguments],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
        )

    @property
    def environment(self) -> dict[str, str]:
        return os.environ | {"FSTUNE_STATE_DIR": str(self.state), "LC_ALL": "C.UTF-8"}

    def bring_up(self, name: str | None = None) -> Cell:
        """Bring up a cell before any campaign, the place's own or one with another name."""
        return Cells(self.state).up(CellSpec(name or self.cell))

    def load(self) -> tuple[Campaign, list[Trial], list[Block], list[Event]]:
        with Store.open(self.state) as store:
            campaign = store.campaign("last")
            return (
                campaign,
                store.trials(campaign.id),
                store.blocks(campaign.id),
                store.events(campaign.id),
            )

    def left_behind(self) -> list[str]:
        """Return the remains of the cell on this machine: directories, mounts, processes."""
        cells = self.state / "cells"
        remaining = [str(path) for path in cells.glob("*")] if cells.is_dir() else []
        own = str(self.state)
        mounts = Path("/proc/self/mountinfo").read_text().splitlines()
        remaining += [line for line in mounts if own in line]
        for status in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = status.read_bytes().decode(errors="replace")
            except OSError:
                continue
            if own in words and status.parent.name != str(os.getpid()):
                remaining.append(f"process {status.parent.name}: {words[:200]!r}")
        return remaining


def write_campaign(place: Place, first: Sequence[dict[str, int]]) -> None:
    (place.directory / "workload.yaml").write_text(yaml.safe_dump(small_workload()))
    (place.directory / "space.yaml").write_text(yaml.safe_dump(careless_space(), sort_keys=False))
    document = {
        "name": "acceptance",
        "testbed": {"cell": {"name": place.cell}},
        "spaces": {
            "fileserver": {
                "name": "./space.yaml",
                "only": ["threads", "udp_buffer", "vlru_interval"],
            },
            "cache_manager": {"name": "openafs-cache-manager-fuse-1.8", "only": ["daemons"]},
        },
        "workload": "./workload.yaml",
        "pilot": {"blocks": 0},
        "search": {"arms": 3, "blocks_per_trial": 3, "max_trials": 3},
        "budget": {"wall_time": "5m", "measurements": 16},
        "certification": {"blocks": 3, "share": "20%"},
        "first": list(first),
    }
    place.campaign_file.write_text(yaml.safe_dump(document, sort_keys=False))


@pytest.fixture
def place(root: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Place]:
    """A place with the small campaign; its cell is taken down afterwards in any case.

    It is in memory, where no page cache can be dropped, unless the test is marked ``disk``.
    """
    with ExitStack() as stack:
        directory = tmp_path
        if request.node.get_closest_marker("disk"):
            state = root / "build" / "test-state"
            state.mkdir(parents=True, exist_ok=True)
            directory = Path(stack.enter_context(TemporaryDirectory(dir=state)))
        yield stack.enter_context(placed(root, directory))


@contextmanager
def placed(
    root: Path, directory: Path, prefix: str = "t", first: Sequence[dict[str, int]] = FIRST
) -> Iterator[Place]:
    """Yield a place with the small campaign; take its cell down in any case.

    ``prefix``: of the cell's name. ``first``: the configurations that the campaign begins with.
    """
    packages = root / "build" / "test-state" / "packages"
    packages.mkdir(parents=True, exist_ok=True)
    place = Place(directory, f"{prefix}-{os.getpid()}")
    place.state.mkdir()
    (place.state / "packages").symlink_to(packages)
    write_campaign(place, first)
    try:
        yield place
    finally:
        Cells(place.state).down(place.cell)


@pytest.fixture(scope="module")
def forked(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forks]:
    """Yield a process that runs commands, which are fast to start and can be killed anywhere."""
    directory = tmp_path_factory.mktemp("forks")
    simulated = outcomes.write_campaign(directory / "campaign.yaml")
    with forks(root, directory, simulated) as process:
        yield process


@pytest.fixture(scope="session")
def hosts(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Labs]:
    labs = Labs(Cells(root / "build" / "test-state"), lambda: tmp_path_factory.mktemp("lab"))
    try:
        yield labs
    finally:
        labs.close()


@pytest.fixture
def lab(hosts: Labs) -> Iterator[Lab]:
    """The hosts, in their original state before and after."""
    lab = hosts.fit()
    lab.testbed()
    lab.workload()
    lab.campaign([THREADS])
    yield lab
    lab.restore()
