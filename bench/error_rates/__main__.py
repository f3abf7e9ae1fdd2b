"""Runs the study: ``python -m bench.error_rates [PART ...]``.

``make bench`` installs its dependencies. The parts are errors (``results.csv``, ``results.svg``),
guards (``guards.csv``), adjusted (``adjusted.csv``) and floors (``floors.csv``); all by default.
Writes those files next to this one, and the tables of ``README.md``. Takes a quarter of an hour on
one core; the figures are the same every time.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from pathlib import Path

from bench.error_rates import study
from bench.error_rates.adjusted import adjusted_rows, adjusted_table
from bench.error_rates.floors import FLOORS, floor_rows, floor_table
from bench.error_rates.guards import Look
from bench.output import put_table, write_csv

HERE = Path(__file__).resolve().parent
PATHS = 100_000
CAMPAIGNS = 4_000
HISTORIES = 1_000
FLOOR_PATHS = 20_000
PARTS = ("errors", "guards", "adjusted", "floors")
LOOK = Look(wrong=500, quiet=300)


def main(parts: Sequence[str]) -> None:
    """Run the given parts at full size."""
    promises: list[bool] = []
    if "errors" in parts:
        errors = study.error_rows(PATHS)
        write_csv(errors, HERE / "results.csv", ".4g")
        study.plot(errors, HERE / "results.svg")
        for blocks in (20, 50):
            _put(f"errors, {blocks} blocks", study.error_table(errors, blocks))
        for row in errors:
            if row.promised and not row.kept:
                print(f"not kept: {row.rule}, {row.noise}, {row.blocks} blocks: {row.error:.4f}")
        promises += [row.kept for row in errors if row.promised]
    if "guards" in parts:
        guards = study.guard_rows(CAMPAIGNS, LOOK)
        write_csv(guards, HERE / "guards.csv", ".4g")
        _put("guards", study.guard_table(guards))
    if "adjusted" in parts:
        adjusted = list(adjusted_rows(HISTORIES))
        write_csv(adjusted, HERE / "adjusted.csv", ".4g")
        _put("adjusted", adjusted_table(adjusted))
        promises += [one.kept for one in adjusted if not math.isnan(one.limit)]
    if "floors" in parts:
        floors = list(floor_rows(FLOOR_PATHS))
        write_csv(floors, HERE / "floors.csv", ".4g")
        for floor in FLOORS:
            _put(f"floors, {floor:.0%}", floor_table(floors, 20, floor))
        promises += [each.kept for each in floors if not math.isnan(each.limit)]
    print(f"{sum(promises)} of {len(promises)} promised rows kept")


def _put(name: str, table: str) -> None:
    put_table(HERE / "README.md", table, name)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parts_wanted = parser.parse_args().parts
    if unknown := set(parts_wanted) - set(PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    main(parts_wanted or PARTS)
