"""Breaks down fstune's own time: ``python -m bench.own_share NAME=STATE_DIRECTORY...``.

Reads copies of the databases in these directories, prints a line for each of their campaigns and
writes ``results.csv`` next to this file. ``NAME``: the version that ran the campaigns.
"""

from __future__ import annotations

import csv
import sys
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from bench.noise.levels import copied
from tuner.model import Campaign
from tuner.states import BlockState
from tuner.store import Store

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Share:
    """One campaign run with ``version``, in which ``own_s`` of ``wall_s`` is fstune's own time.

    ``arm_s``: the part of it per arm that is spent within complete blocks on neither restarts nor
    workloads, that is on counters and the store. ``decision_s``: the rest, per complete block, that
    is decisions.
    """

    version: str
    campaign: str
    arms: int
    wall_s: float
    own_s: float
    share: float
    arm_s: float
    decision_s: float


def share_of(version: str, store: Store, campaign: Campaign) -> Share | None:
    """Return the breakdown of a campaign, None if it has no complete block."""
    blocks = [b for b in store.blocks(campaign.id) if b.state is BlockState.COMPLETE]
    arms = [m for block in blocks for m in block.measurements]
    if not arms:
        return None
    use = campaign.time_use
    within = sum(b.duration_s for b in blocks) - sum(m.apply_s + m.workload_s for m in arms)
    return Share(
        version,
        campaign.name,
        len(arms),
        use.wall_s,
        use.overhead_s,
        use.overhead_share,
        within / len(arms),
        (use.overhead_s - within) / len(blocks),
    )


def main(places: list[tuple[str, Path]]) -> None:
    """Put the campaigns of all places into one table."""
    shares = []
    for version, directory in places:
        with copied(directory) as store:
            every = (share_of(version, store, each) for each in store.campaigns())
            shares += [each for each in every if each is not None]
    with (HERE / "results.csv").open("w", newline="", encoding="utf-8") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(field.name for field in fields(Share))
        for one in shares:
            cells = asdict(one).values()
            writer.writerow(f"{cell:.4f}" if isinstance(cell, float) else cell for cell in cells)
            print(one)


if __name__ == "__main__":
    pairs = [each.partition("=") for each in sys.argv[1:]]
    main([(name, Path(place)) for name, _, place in pairs])
