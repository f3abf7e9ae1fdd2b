"""Measures the workload engine against other generators and on a cell, and writes CSV files.

Run ``python -m bench.workload_engine [ROUNDS]`` as root on Debian, with 5 GiB of memory free: it
works under /dev/shm and fetches fio, fsmark, postmark and OpenAFS into a temporary directory.
"""

from __future__ import annotations

import csv
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import median

from bench.workload_engine import cell, side_by_side, small_files
from bench.workload_engine.engine import Engine
from bench.workload_engine.tools import Tools

_HERE = Path(__file__).parent
_TOUCHED_MIB = 4500


def main(rounds: int) -> None:
    """Measure, print, and write the files next to this one."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as scratch:
        place = Path(scratch) / "place"
        place.mkdir()
        tools = Tools.unpack(Path(scratch) / "tools")
        engine = Engine.build(Path(scratch))
        _small_files(rounds, tools, engine, place)
        _postmark(rounds, tools, engine, place)
        _on_a_cell(rounds, Path(scratch) / "state")


def _small_files(rounds: int, tools: Tools, engine: Engine, place: Path) -> None:
    programs: dict[str, Callable[[], dict[str, float]]] = {
        "engine": lambda: small_files.engine(engine, place),
        "loop": lambda: small_files.loop(place, reopen=True),
        "loop without reopening": lambda: small_files.loop(place, reopen=False),
        "fs_mark": lambda: small_files.fs_mark(tools, place),
        "fio": lambda: small_files.fio(tools, place),
    }
    rows = []
    for turn in range(rounds):
        for program, run in programs.items():
            for operation, rate in run().items():
                rows.append((turn, program, operation, round(rate)))
                print(*rows[-1], flush=True)
    _write("small_files.csv", ("round", "program", "operation", "per_s"), rows)


def _postmark(rounds: int, tools: Tools, engine: Engine, place: Path) -> None:
    rows: list[tuple[object, ...]] = []
    seconds: dict[str, list[float]] = {"engine": [], "postmark": []}
    programs: dict[str, Callable[[], side_by_side.Outcome]] = {
        "engine": lambda: side_by_side.ours(engine, place, lambda: _touch(place)),
        "postmark": lambda: side_by_side.theirs(tools, place, lambda: _touch(place)),
    }
    for turn in range(2 * rounds):
        # The order alternates from round to round.
        counts = []
        for program in sorted(programs, reverse=turn % 2 == 0):
            one = programs[program]()
            seconds[program].append(one.timed_s)
            counts.append(one.counts)
            rows.append((turn, program, f"{one.timed_s:.3f}", *one.counts))
            print(*rows[-1], flush=True)
        if counts[0] != counts[1]:
            raise RuntimeError(f"not the same work: {counts[0]} and {counts[1]}")
    own, other = seconds["engine"], seconds["postmark"]
    paired = median(one / two for one, two in zip(own, other, strict=True))
    print(
        f"engine / postmark: medians {median(own) / median(other):.2f}, fastest runs "
        f"{min(own) / min(other):.2f}, median of the rounds {paired:.2f}"
    )
    heads = ("round", "program", "timed_s", "created", "read", "appended", "read_mib")
    _write("postmark.csv", (*heads, "written_mib"), rows)


def _on_a_cell(rounds: int, state: Path) -> None:
    rows: list[tuple[object, ...]] = []
    seconds: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    with cell.private_cell(state) as there:
        for turn in range(rounds):
            for name, scale in cell.RUNS:
                for one in cell.costs(there, name, scale):
                    elapsed, own = f"{one.elapsed_s:.3f}", f"{one.user_s:.3f}"
                    rows.append((turn, name, one.component, elapsed, own))
                    print(*rows[-1], flush=True)
                    seconds[name][0] += one.elapsed_s
                    seconds[name][1] += one.user_s
    for name, (elapsed_s, user_s) in seconds.items():
        print(f"{name}: the engine's own processor time is {user_s / elapsed_s:.1%} of the time")
    _write("cell.csv", ("round", "workload", "component", "elapsed_s", "user_s"), rows)


def _touch(place: Path) -> None:
    """Touch the memory needed later, as a virtual machine may get it only on first use."""
    block = bytes(1 << 20)
    with (place / "touch").open("wb") as file:
        for _ in range(_TOUCHED_MIB):
            file.write(block)
    (place / "touch").unlink()


def _write(name: str, heads: Iterable[str], rows: Iterable[Iterable[object]]) -> None:
    with (_HERE / name).open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(heads)
        writer.writerows(rows)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
