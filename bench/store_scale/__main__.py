"""Fills a database with long campaigns and times resuming and displaying one.

Run ``python -m bench.store_scale [--campaigns N] [--rounds N] [--kind sqlite|postgresql ...]``; it
uses a new directory and, for PostgreSQL, a private server from Debian's packages.
"""

from __future__ import annotations

import argparse
import csv
import math
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
from tuner.cli.ending import stored_end
from tuner.measure.workload import load_workload
from tuner.plan.model_guide import ModelGuide
from tuner.plan.planner import Planner
from tuner.plan.rules import rules_of
from tuner.propose.encoding import Tunable
from tuner.spec.space_section import load_space
from tuner.store import Store
from tuner.store.pages import Pages

_HERE = Path(__file__).parent
_ROOT = _HERE.parents[1]
_FIELDS = ("database", "measurements", "what", "wall_s", "cpu_s", "peak_mb")
_REPEATS = 5
_FSTUNE = "from tuner.cli import main; main()"
#: Makes a program print "VmHWM: 123456 kB" on exit.
_TELL_PEAK = """
import atexit, sys
@atexit.register
def tell():
    with open("/proc/self/status") as status:
        print(*(line for line in status if line.startswith("VmHWM")), file=sys.stderr)
"""

#: ``peak_mb`` is only for commands; everything else is done in turn by one process.
Row = tuple[str, int, str, float, float, float]


@contextmanager
def place(kind: str, directory: Path) -> Iterator[str | None]:
    """Yield the address of an empty database, or None for the file in a state directory."""
    if kind == "sqlite":
        yield None
        return
    with running(_ROOT / "build" / "test-state" / "packages") as server:
        yield server.url(server.new())


def time_of(work: Callable[[], object]) -> tuple[float, float]:
    """Return wall and processor time (s) of this process, the medians of several runs."""
    times = []
    for _ in range(_REPEATS):
        wall, cpu = time.perf_counter(), time.process_time()
        work()
        times.append((time.perf_counter() - wall, time.process_time() - cpu))
    return median(w for w, _ in times), median(c for _, c in times)


def command(program: str, *arguments: str) -> tuple[float, float, float]:
    """Return wall and processor time (s) and peak memory (MB) of a program in a new Python process.

    The program reports its peak itself, as the system's count for a child starts with its parent's.
    """
    began = time.perf_counter()
    argv = [sys.executable, "-c", _TELL_PEAK + program, *arguments]
    before = os.times()
    result = subprocess.run(
        argv, cwd=_ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=True
    )
    after = os.times()
    wall_s = time.perf_counter() - began
    cpu_s = after.children_user + after.children_system
    cpu_s -= before.children_user + before.children_system
    return wall_s, cpu_s, int(result.stderr.split()[-2]) / 1024.0


def resume(directory: Path, address: str | None, campaign: str) -> None:
    """Do what a run of a stored campaign does before its first planned step, minus the testbed."""
    with Store.open(directory, address) as store:
        rules = rules_of(SPEC, load_workload(SPEC.workload.name))
        blocks = store.block_times(store.campaign(campaign).id, rules.components)
        tunables = {}
        for part in ("fileserver", "cache_manager"):
            space = load_space(SPEC.spaces[part], part)
            tunables[part] = Tunable(
                space, {name: fact.assumed for name, fact in space.facts.items()}, {}
            )
        trials = store.trials(campaign)
        guide = ModelGuide(tunables, trials[0].configuration, rules)
        Planner(rules, guide).plan(trials, blocks)


def measure(directory: Path, address: str | None, campaigns: int, rounds: int) -> Iterator[Row]:
    """Fill a database, then time queries of it."""
    kind = "SQLite" if address is None else "PostgreSQL"
    with Store.open(directory, address) as store:
        last = fill(store, rounds, campaigns)[-1]
        pages = Pages(store)
        count = campaigns * pages.totals(last).measurements
        middle = rounds * 2
        tasks: list[tuple[str, Callable[[], object]]] = [
            ("first page of 100 trials", lambda: pages.trials(last, -1, 101)),
            ("middle page of 100 trials", lambda: pages.trials(last, middle, 101)),
            ("page of 100 measurements", lambda: pages.measurements(last, (rounds * 5, 0), 101)),
            ("page of 100 events", lambda: store.events(last, rounds * 5, 101)),
            ("last campaign, by that word", lambda: store.campaign("last")),
            ("the last page's numbers", lambda: stored_end(store, store.campaign(last))),
            ("resume: to the first planned step", lambda: resume(directory, address, last)),
        ]
        for what, work in tasks:
            yield (kind, count, what, *time_of(work), math.nan)
    program = (
        "import sys; from pathlib import Path; import tuner.cli; "
        "from bench.store_scale.__main__ import resume; "
        "resume(Path(sys.argv[1]), sys.argv[2] or None, sys.argv[3])"
    )
    where = ["--state-dir", str(directory), *(() if address is None else ("--database", address))]
    commands = {
        "resume to the first planned step, as a command": (
            program,
            str(directory),
            address or "",
            last,
        ),
        "fstune show, as a command": (_FSTUNE, "show", last, *where),
    }
    for what, argv in commands.items():
        times = [command(*argv) for _ in range(_REPEATS)]
        yield (kind, count, what, *(median(of) for of in zip(*times, strict=True)))


def main(campaigns: list[int], rounds: int, kinds: list[str]) -> None:
    """Measure, print, and write the table."""
    with (_HERE / "results.csv").open("w", newline="") as file:
        output = csv.writer(file)
        output.writerow(_FIELDS)
        for kind in kinds:
            for count in campaigns:
                with tempfile.TemporaryDirectory() as temporary:
                    directory = Path(temporary)
                    with place(kind, directory) as address:
                        for name, rows, what, wall, cpu, peak in measure(
                            directory, address, count, rounds
                        ):
                            text = f"{wall:.4f} s ({cpu:.4f} s)"
                            text += "" if math.isnan(peak) else f", {peak:.0f} MB"
                            print(f"{name}, {rows:,}: {what}: {text}")
                            figures = (f"{wall:.4f}", f"{cpu:.4f}", f"{peak:.0f}")
                            output.writerow((name, rows, what, *figures))
                            file.flush()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--campaigns", type=int, nargs="+", default=[1, 5])
    parser.add_argument("--rounds", type=int, default=2501)
    parser.add_argument("--kind", nargs="+", default=["sqlite", "postgresql"])
    options = parser.parse_args()
    main(options.campaigns, options.rounds, options.kind)
