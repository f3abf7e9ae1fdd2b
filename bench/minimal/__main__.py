"""Runs the study: ``python -m bench.minimal [CAMPAIGNS] [NOISE,...] [HOURS]``; see README.md.

Writes ``results.csv`` next to this file and the table of ``README.md``; the same code gives the
same figures every time.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

from bench.minimal.study import Row, campaign, table
from bench.output import put_table, write_csv
from bench.running import two_at_once

HERE = Path(__file__).resolve().parent


def main(campaigns: int, noises: list[float], hours: float) -> None:
    """Run that many campaigns for each noise, and write the results."""
    rows: list[Row] = []
    for noise in noises:
        run = partial(campaign, noise=noise, hours=hours)
        for row in two_at_once(run, range(1, campaigns + 1)):
            rows.append(row)
            print(row, flush=True)
    write_csv(rows, HERE / "results.csv")
    put_table(HERE / "README.md", table(rows))


if __name__ == "__main__":
    words = dict(enumerate(sys.argv[1:4]))
    noise = [float(each) for each in words.get(1, "0.05,0.10").split(",")]
    main(int(words.get(0, 100)), noise, float(words.get(2, 1.0)))
