"""Runs the study: ``python -m bench.gains FIRST_SEED LAST_SEED``; see README.md.

Writes ``results.csv`` next to this file and the table of ``README.md``; the same code gives the
same figures every time.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from pathlib import Path

from bench.gains.study import HOURS, SURFACES, Row, campaign, table
from bench.output import put_table, write_csv
from bench.running import seeds, two_at_once

HERE = Path(__file__).resolve().parent


def main(numbers: Sequence[int]) -> None:
    """Run the campaigns of these seeds on every surface, and write the results."""
    rows: list[Row] = []
    campaigns = list(product(SURFACES, HOURS, numbers))
    every = two_at_once(campaign, *zip(*campaigns, strict=True))
    for which, some in zip(campaigns, every, strict=True):
        rows += some
        print(*which, len(some), flush=True)
    write_csv(rows, HERE / "results.csv")
    put_table(HERE / "README.md", table(rows))


if __name__ == "__main__":
    main(seeds("bench.gains", __doc__))
