"""A campaign on two real cells at once: every block is on one of them, and both are restored."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest
import yaml

from deploy.cell import Cell, Cells
from tests.acceptance.conftest import Place
from tests.acceptance.test_kill_cell import Machines, await_machines
from tests.killing import Forks, Point
from tests.unit.campaign.outcomes import measured
from tuner.model import Block, Event, Trial
from tuner.states import BlockState, CampaignState, TrialState
from tuner.store import Store, problems

pytestmark = [pytest.mark.cell, pytest.mark.slow, pytest.mark.timeout(600)]

#: The point at which the process is killed, at its Nth pass: in the second batch of blocks.
KILL, PASSES = Point("set the fileserver", "after"), 6


@pytest.fixture
def names(place: Place) -> Iterator[tuple[str, str]]:
    """Yield the names of two cells; both are taken down afterwards in any case."""
    both = (f"{place.cell}-a", f"{place.cell}-b")
    yield both
    for name in both:
        Cells(place.state).down(name)


def write_campaign(place: Place, names: Sequence[str], root: Path, **more: object) -> None:
    """Write a campaign on cells; ``more``: its sections about what is measured and how often."""
    workload = place.directory / "workload.yaml"
    workload.write_text((root / "tests" / "data" / "small-workload.yaml").read_text())
    document = {
        "name": "two cells",
        "testbeds": [{"cell": {"name": name}} for name in names],
        "spaces": {
            "fileserver": {"name": "openafs-fileserver-1.8", "only": ["threads"]},
            "cache_manager": {"name": "openafs-cache-manager-fuse-1.8", "only": ["daemons"]},
        },
        "workload": "./workload.yaml",
        "certification": {"blocks": 4, "share": "20%"},
    }
    place.campaign_file.write_text(yaml.safe_dump(document | more, sort_keys=False))


def journals(cell: Cell) -> list[Path]:
    """The journals on a cell, from which it would have to be restored."""
    return sorted((cell.server.shared / "restore").glob("*"))


def where(blocks: Sequence[Block]) -> dict[int, str]:
    """The testbed of each block."""
    assert all(block.testbed for block in blocks)
    return {block.number: str(block.testbed) for block in blocks}


def times(events: Sequence[Event]) -> dict[int, tuple[datetime, datetime]]:
    """The start and end times of each block, by its events."""
    began = {e.data["block"]: e.at for e in events if e.kind == "block-started"}
    ends = {e.data["block"]: e.at for e in events if e.kind in ("block-complete", "block-void")}
    assert began.keys() == ends.keys()
    return {int(str(number)): (at, ends[number]) for number, at in began.items()}


def spans(blocks: Sequence[Block]) -> list[tuple[datetime, datetime]]:
    """The time spans of the workload in each block, from the first arm to the last."""
    return [
        (
            min(m.started for m in block.measurements),
            max(
                m.started + timedelta(seconds=m.apply_s + m.workload_s) for m in block.measurements
            ),
        )
        for block in blocks
    ]


def check_spread(
    blocks: Sequence[Block], trials: Sequence[Trial], events: Sequence[Event], names: Sequence[str]
) -> None:
    """Check that blocks were complete, on both cells, and never two at once on one of them.

    An arm whose trial did not start is missing from the block in which it failed.
    """
    failed = {trial.number for trial in trials if trial.state is TrialState.FAILED}
    of = where(blocks)
    assert len(set(of.values())) == 2
    assert {name for name in names if any(name in testbed for testbed in of.values())} == set(names)
    used = Counter(block.testbed for block in blocks if block.state is BlockState.COMPLETE)
    assert min(used.values()) >= 2
    for block in blocks:
        if block.state is BlockState.COMPLETE:
            arms = tuple(m.trial for m in block.measurements)
            assert tuple(n for n in block.order if n in arms or n not in failed) == arms
            assert all(m.effective == m.requested for m in block.measurements)
    on: dict[str, list[tuple[datetime, datetime]]] = defaultdict(list)
    for number, span in times(events).items():
        on[of[number]].append(span)
    for intervals in on.values():
        assert all(one[1] <= next_one[0] for one, next_one in pairwise(sorted(intervals)))


def ran_at_once(blocks: Sequence[Block]) -> bool:
    """Whether two blocks were ever measured at the same time on different cells."""
    batches: dict[int | None, list[Block]] = defaultdict(list)
    for block in blocks:
        if block.state is BlockState.COMPLETE:
            batches[block.batch].append(block)
    for batch in batches.values():
        if len(batch) == 2 and batch[0].testbed != batch[1].testbed:
            (began, end), (other_began, other_ended) = spans(batch)
            if began < other_ended and other_began < end:
                return True
    return False


def test_a_campaigns_own_cells_are_both_used_and_removed_after_it(
    place: Place, names: tuple[str, str], root: Path
) -> None:
    write_campaign(
        place,
        names,
        root,
        pilot={"blocks": 0},
        # No trial is given up before its third block, so that two batches of two are certain.
        search={"arms": 1, "blocks_per_trial": 4, "max_trials": 1},
        budget={"wall_time": "20m", "measurements": 20},
        first=[{"fileserver.threads": 40, "cache_manager.daemons": 4}],
    )
    result = place.fstune("run", str(place.campaign_file))
    assert result.returncode == 0, result.stdout + result.stderr
    campaign, trials, blocks, events = place.load()
    assert campaign.state is CampaignState.FINISHED
    assert campaign.recommendation is not None
    check_spread(blocks, trials, events, names)
    assert ran_at_once(blocks)
    warned = [event.message for event in events if event.kind == "shared-machine"]
    assert warned == [
        "warn: private cells are on one machine: what runs in one disturbs the others"
    ]
    closed = {event.message for event in events if event.kind == "testbed-closed"}
    assert closed == {f"cell {name}: private cell {name} taken down" for name in names}
    page = "".join(place.fstune("show").stdout.split())  # long paths are wrapped anywhere
    of_each = Counter(b.testbed for b in blocks if b.state is BlockState.COMPLETE)
    assert all("".join(f"{name}: {n} blocks".split()) in page for name, n in of_each.items())
    assert place.left_behind() == []


def test_killed_in_the_middle_and_resumed_both_cells_are_as_found(
    forked: Forks, place: Place, names: tuple[str, str], root: Path
) -> None:
    # A comparison has at least three blocks, so that two batches of two are certain.
    compare = {"more": {"fileserver": {"threads": 40}, "cache_manager": {"daemons": 4}}}
    write_campaign(
        place,
        names,
        root,
        compare=compare,
        budget={"wall_time": "20m", "measurements": 12},
    )
    cells = [place.bring_up(name) for name in names]
    originals = [Machines.of(cell) for cell in cells]
    options = ("--state-dir", str(place.state))
    assert not forked.fstune("run", str(place.campaign_file), *options, point=KILL, passes=PASSES)
    campaign, _, blocks, _ = place.load()
    assert campaign.state is CampaignState.RUNNING
    cut_off = {block.number for block in blocks if block.state is BlockState.RUNNING}
    assert cut_off
    assert all(journals(cell) for cell in cells)
    before = measured(blocks)
    assert before

    assert forked.fstune("resume", *options), forked.output
    campaign, trials, blocks, events = place.load()
    assert campaign.state is CampaignState.FINISHED
    assert campaign.recommendation is not None
    assert before.items() <= measured(blocks).items()
    assert cut_off <= {block.number for block in blocks if block.state is BlockState.VOID}
    check_spread(blocks, trials, events, names)
    with Store.open(place.state) as store:
        assert problems(store) == []

    for cell, original in zip(cells, originals, strict=True):
        await_machines(cell, original)
    for cell in cells:
        assert journals(cell) == []
        # One of each server's last two starts was with other options than the original ones.
        output = cell.server.check(["sh", "-c", "cat /var/log/openafs/FileLog*"])
        starts = [line.split() for line in output.splitlines() if "File server starting (" in line]
        assert any("-p" in words for words in starts)
