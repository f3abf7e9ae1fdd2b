"""A campaign on a real cell whose process is killed repeatedly: it finishes, and the cell is
restored.
"""

from __future__ import annotations

import os
import random
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from deploy.cell import Cell
from tests.acceptance.conftest import Place
from tests.killing import Forks, Point
from tests.postgresql import Server
from tests.unit.campaign import outcomes
from tests.unit.conftest import postgresql
from tuner.model import Measurement
from tuner.states import BlockState, CampaignState
from tuner.store import problems

__all__ = ["postgresql"]
pytestmark = [pytest.mark.cell, pytest.mark.slow, pytest.mark.timeout(900)]

KILLS = 12
#: At least as many of them while something is changed: a random one that comes too early for that
#: is repeated.
CHANGED = KILLS // 3
#: The longest random lifetime of a process, which is less than a campaign takes; if nothing was
#: changed in it because the machine is slow, the next lifetimes are longer.
LONGEST_LIFE_S = 3.0
LONGER = 1.5
#: The last kills, in this order; from there the campaign's end is never far.
AT = (
    Point("set the fileserver", "after"),
    Point("empty the caches", "after"),
    Point("restore the fileserver", "before"),
    Point("restore the fileserver", "after"),
    Point("restore the clients", "after"),
)
BOS_CONFIG = Path("etc/BosConfig")


@dataclass(frozen=True)
class Machines:
    """The programs that a cell runs, and its fileserver's configuration."""

    configuration: bytes
    commands: tuple[str, ...]

    @classmethod
    def of(cls, cell: Cell) -> Machines:
        spaces = {os.readlink(f"/proc/{node.init.pid}/ns/pid") for node in cell.nodes}
        commands = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if os.readlink(process / "ns" / "pid") in spaces:
                    commands.append((process / "cmdline").read_bytes().decode())
            except OSError:
                continue
        configuration = (cell.server.directory / BOS_CONFIG).read_bytes()
        return cls(configuration, tuple(sorted(command for command in commands if command)))


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def database(request: pytest.FixtureRequest, place: Place) -> outcomes.Place:
    """Return the database of the campaign."""
    if request.param == "sqlite":
        return outcomes.Place(place.state)
    server: Server = request.getfixturevalue("postgresql")
    return outcomes.Place(place.state, server.url(server.new()))


@pytest.fixture
def cell(place: Place) -> Cell:
    """Return a cell that is up before any campaign."""
    return place.bring_up()


def write_campaign(place: Place, root: Path) -> None:
    workload = place.directory / "workload.yaml"
    workload.write_text((root / "tests" / "data" / "small-workload.yaml").read_text())
    document = {
        "name": "hunted",
        "testbed": {"cell": {"name": place.cell}},
        "spaces": {
            "fileserver": {"name": "openafs-fileserver-1.8", "only": ["threads"]},
            "cache_manager": {"name": "openafs-cache-manager-fuse-1.8", "only": ["daemons"]},
        },
        "workload": "./workload.yaml",
        "pilot": {"blocks": 0},
        "search": {"arms": 1, "blocks_per_trial": 3, "max_trials": 1},
        # Includes the cost of what kills cut off.
        "budget": {"wall_time": "20m", "measurements": 80},
        "certification": {"blocks": 3, "share": "20%"},
        "first": [{"fileserver.threads": 40, "cache_manager.daemons": 4}],
    }
    place.campaign_file.write_text(yaml.safe_dump(document, sort_keys=False))


def await_machines(cell: Cell, original: Machines) -> None:
    """Wait for the original state: processes may take a moment to end or to come back."""
    deadline = time.monotonic() + 200.0
    while (now := Machines.of(cell)) != original:
        assert time.monotonic() < deadline, now
        time.sleep(0.1)


def test_killed_at_any_moment_it_goes_on_and_puts_back_what_was_found(
    forked: Forks, root: Path, place: Place, database: outcomes.Place, cell: Cell
) -> None:
    write_campaign(place, root)
    original = Machines.of(cell)
    draw = random.Random(20)
    lives: list[tuple[Point | None, float | None]] = [
        *((None, LONGEST_LIFE_S * draw.random()) for _ in range(KILLS - len(AT))),
        *((point, None) for point in AT),
        (None, None),
    ]
    kills, differed, early, slowness = 0, 0, 0, 1.0
    before: dict[tuple[int, int], Measurement] = {}
    command = ["run", str(place.campaign_file)]
    while lives:
        point, after_s = lives[0]
        longer_s = None if after_s is None else slowness * after_s
        finished = forked.fstune(*command, *database.options, point=point, after_s=longer_s)
        now = Machines.of(cell)
        kills += not finished
        differed += now != original
        slowness = 1.0 if finished else slowness * (1.0 if now != original else LONGER)
        if not finished and after_s is not None and now == original and differed < CHANGED:
            early += 1
            lives[0] = (None, LONGEST_LIFE_S * draw.random())
        elif not finished or len(lives) == 1:
            lives.pop(0)
        with database.open() as store:
            if not store.campaigns():
                continue  # killed before it was created
            assert problems(store) == []
            campaign, trials, blocks = outcomes.newest_campaign(store)
        assert before.items() <= outcomes.measured(blocks).items()
        command, before = ["resume", campaign.id], outcomes.measured(blocks)
        if campaign.state is CampaignState.FINISHED:
            outcomes.check_decisions(campaign, trials, blocks)
            assert all(m.effective == m.requested for m in before.values())
            await_machines(cell, original)
            command, before = ["run", str(place.campaign_file)], {}
    assert kills == KILLS + early
    assert differed >= CHANGED
    assert campaign.state is CampaignState.FINISHED
    assert sum(block.state is BlockState.VOID for block in blocks) >= KILLS // 6
    assert not any((cell.server.shared / "restore").glob("*"))
