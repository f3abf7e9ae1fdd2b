"""Fills a database with long campaigns and times how one is taken up again and shown.

Run ``python -m bench.store_scale [--campaigns N] [--races N] [--kind sqlite|postgresql ...]``; it
uses a new directory and, for PostgreSQL, a private server from Debian's packages.
"""

from __future__ import annotations

import argparse
import csv
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from bench.store_scale.filling import SPEC, fill
from tests.postgresql import running
from tuner.campaign.plan import Planner
from tuner.campaign.rules import rules_of
from tuner.measure.workload import load_workload
from tuner.store import Store
from tuner.store.pages import Pages

_HERE = Path(__file__).parent
_ROOT = _HERE.parents[1]
_FIELDS = ("database", "measurements", "what", "wall_s", "cpu_s")
_REPEATS = 5

Row = tuple[str, int, str, float, float]


@contextmanager
def place(kind: str, directory: Path) -> Iterator[str | None]:
    """The address of an empty database; None for the file of a state directory."""
    if kind == "sqlite":
        yield None
        return
    with running(_ROOT / "build" / "test-state" / "packages") as server:
        yield server.url(server.new())


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """Wall and processor time (s) of this process: the medians of several runs."""
    found = []
    for _ in range(_REPEATS):
        wall, cpu = time.perf_counter(), time.process_time()
        work()
        found.append((time.perf_counter() - wall, time.process_time() - cpu))
    return median(w for w, _ in found), median(c for _, c in found)


def resume(directory: Path, address: str | None, campaign: str) -> None:
    """What a run of a stored campaign does before its first planned step, but for the testbed."""
    with Store.open(directory, address) as store:
        rules = rules_of(SPEC, load_workload(SPEC.workload.name))
        blocks = store.block_times(store.campaign(campaign).id, rules.components)
        Planner(rules).plan(store.trials(campaign), blocks)


def measured(directory: Path, address: str | None, campaigns: int, races: int) -> Iterator[Row]:
    """Fill a database, then time what is asked of it."""
    kind = "SQLite" if address is None else "PostgreSQL"
    with Store.open(directory, address) as store:
        last = fill(store, races, campaigns)[-1]
        pages = Pages(store)
        count = campaigns * pages.totals(last).measurements
        middle = races * 2
        asked: list[tuple[str, Callable[[], object]]] = [
            ("first page of 100 trials", lambda: pages.trials(last, -1, 101)),
            ("middle page of 100 trials", lambda: pages.trials(last, middle, 101)),
            ("page of 100 measurements", lambda: pages.measurements(last, (races * 5, 0), 101)),
            ("page of 100 events", lambda: store.events(last, races * 5, 101)),
            ("last campaign, by that word", lambda: store.campaign("last")),
            ("resume: to the first planned step", lambda: resume(directory, address, last)),
        ]
        for what, work in asked:
            yield (kind, count, what, *timed(work))
    program = (
        "import sys; from pathlib import Path; import tuner.cli; "
        "from bench.store_scale.__main__ import resume; "
        "resume(Path(sys.argv[1]), sys.argv[2] or None, sys.argv[3])"
    )
    command = [sys.executable, "-c", program, str(directory), address or "", last]

    def run() -> None:
        subprocess.run(command, check=True, cwd=_ROOT, env=dict(os.environ))

    wall, _ = timed(run)
    yield kind, count, "the same as a command, with all imports", wall, float("nan")


def main(campaigns: list[int], races: int, kinds: list[str]) -> None:
    """Measure, print, and write the table."""
    with (_HERE / "results.csv").open("w", newline="") as file:
        output = csv.writer(file)
        output.writerow(_FIELDS)
        for kind in kinds:
            for count in campaigns:
                with tempfile.TemporaryDirectory() as temporary:
                    directory = Path(temporary)
                    with place(kind, directory) as address:
                        for name, rows, what, wall, cpu in measured(
                            directory, address, count, races
                        ):
                            print(f"{name}, {rows:,}: {what}: {wall:.4f} s ({cpu:.4f} s)")
                            output.writerow((name, rows, what, f"{wall:.4f}", f"{cpu:.4f}"))
                            file.flush()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--campaigns", type=int, nargs="+", default=[1, 5])
    parser.add_argument("--races", type=int, default=2501)
    parser.add_argument("--kind", nargs="+", default=["sqlite", "postgresql"])
    given = parser.parse_args()
    main(given.campaigns, given.races, given.kind)
