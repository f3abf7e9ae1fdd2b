"""Runs the race: ``python -m bench.peers``, see README.md.

Writes ``results.csv`` and ``results.svg`` next to this file, and the tables of ``README.md``.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path

from bench.output import put_table
from bench.peers.race import PEERS, Row, Task, read_rows, run_task, tasks, write_rows
from bench.peers.summary import plot, tables
from tuner.errors import SpecError
from tuner.simulate.study import parse_seeds
from tuner.simulate.surface import surface_names

HERE = Path(__file__).resolve().parent
_SAVED_EVERY_S = 60.0
_QUICK = {"seeds": "1", "noise": "0.10", "budget": 0.5}


def main(arguments: list[str]) -> int:
    """Run the tasks selected by the options, and write their results."""
    options = _parse(arguments)
    peers = _names(options.peers, [peer.name for peer in PEERS], "--peers")
    surfaces = _names(options.surfaces, surface_names(), "--surfaces")
    noises = [float(noise) for noise in options.noise.split(",")]
    all_tasks = tasks(
        peers,
        surfaces,
        noises,
        _seeds(options.seeds),
        options.budget * 3600.0,
        options.slow_seeds,
    )
    out = Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    path = out / "results.csv"
    rows = {_key(row): row for row in read_rows(path)} if options.go_on else {}
    tasks_left = [task for task in all_tasks if _key(task) not in rows]
    print(f"{len(tasks_left)} runs, {len(rows)} are there already", flush=True)
    _run(tasks_left, rows, path, options.jobs)
    write_rows(rows.values(), path)
    results = read_rows(path)
    plot(results, out / "results.svg")
    words = [word for word in arguments if word != "--go-on"]
    text = f"Made with `{' '.join(['python -m bench.peers', *words])}`.\n\n{tables(results)}"
    if out == HERE:
        put_table(HERE / "README.md", text)
    print(text)
    return 0


def _run(
    tasks_left: list[Task], rows: dict[tuple[object, ...], Row], path: Path, jobs: int
) -> None:
    """Run these tasks in separate processes, and save the results from time to time."""
    # Peers that use many processors would only slow each other down.
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    last_save_s = time.monotonic()
    with ProcessPoolExecutor(jobs, get_context("spawn")) as workers:
        try:
            running = [workers.submit(run_task, task) for task in tasks_left]
            for count, task in enumerate(as_completed(running), start=1):
                for row in task.result():
                    rows[_key(row)] = row
                print(
                    f"{count}/{len(tasks_left)} {row.peer}, {row.surface}, noise {row.noise:g}, "
                    f"seed {row.seed}: regret {row.regret:.3f}",
                    flush=True,
                )
                if time.monotonic() - last_save_s > _SAVED_EVERY_S:
                    write_rows(rows.values(), path)
                    last_save_s = time.monotonic()
        except BaseException:
            workers.shutdown(wait=False, cancel_futures=True)
            write_rows(rows.values(), path)
            raise


def _key(of: Task | Row) -> tuple[object, ...]:
    return of.peer, of.surface, of.noise, of.seed


def _names(text: str | None, all_names: list[str], option: str) -> list[str]:
    if text is None:
        return all_names
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in all_names:
            sys.exit(f"{option}: no {name!r}; there are {', '.join(all_names)}")
    return names


def _seeds(text: str) -> list[int]:
    try:
        return parse_seeds(text)
    except SpecError as problem:
        sys.exit(str(problem))


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one seed, one noise, half an hour")
    parser.add_argument("--seeds", default="1-20", help="numbers and ranges (1-20)")
    parser.add_argument("--slow-seeds", type=int, default=2, help="of peers that take minutes (2)")
    parser.add_argument("--noise", default="0.05,0.10,0.15", help="component noises")
    parser.add_argument("--budget", type=float, default=1.0, help="hours on the testbed (1)")
    parser.add_argument("--surfaces", help="names, all by default")
    parser.add_argument("--peers", help="names, all by default")
    parser.add_argument("--jobs", type=int, default=2, help="runs at once (2)")
    parser.add_argument("--go-on", action="store_true", help="keep the rows that are there")
    parser.add_argument("--out", default=str(HERE), help="where results are written")
    parser.set_defaults(**(_QUICK if "--quick" in arguments else {}))
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
