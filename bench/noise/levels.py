"""The noise of stored campaigns as measures against it are added one by one."""

from __future__ import annotations

import csv
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tuner.judge.noise_records import NoiseReport
from tuner.plan.rules import stored_rules
from tuner.results.noise import campaign_noise
from tuner.store import Store

_DATABASE = "fstune.sqlite3"


@dataclass(frozen=True)
class Noise:
    """The noise of one campaign, with the campaign's seed."""

    campaign: str
    seed: int
    report: NoiseReport


@contextmanager
def copied(directory: Path) -> Iterator[Store]:
    """Open a copy of a state directory's database, as its campaigns may still be running."""
    with tempfile.TemporaryDirectory(prefix="fstune-noise-") as place:
        for file in directory.glob(f"{_DATABASE}*"):
            shutil.copy(file, place)
        with Store.open(Path(place)) as store:
            yield store


def levels(store: Store) -> list[Noise]:
    """Return the noise of every campaign with enough repetitions to estimate it, by name."""
    noises = []
    for campaign in sorted(store.campaigns(), key=lambda each: each.name):
        report = campaign_noise(store, campaign.id, stored_rules(campaign))
        if report is not None:
            noises.append(Noise(campaign.name, campaign.seed, report))
    return noises


def write_levels(noises: list[Noise], file: Path) -> None:
    """Write a row for each campaign and measure."""
    with file.open("w", newline="", encoding="utf-8") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(
            ("campaign", "seed", "arms", "freedom", "again", "measure", "sd", "variance", "share")
        )
        for each in noises:
            r = each.report
            for level in r.levels:
                numbers = (f"{level.sd:.4f}", f"{level.score:.6f}", f"{level.share:.3f}")
                row = (each.campaign, each.seed, r.arms, r.freedom, r.again, level.measure)
                writer.writerow((*row, *numbers))
