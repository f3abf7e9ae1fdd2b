"""Runs the study: ``python -m bench.gains FIRST_SEED LAST_SEED``; see README.md.

Writes ``results.csv`` next to this file and the table of ``README.md``; the same code gives the
same figures every time.
"""

from __future__ import annotations

import argparse
import os
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from multiprocessing import get_context
from pathlib import Path

from bench.gains.study import HOURS, SURFACES, Row, campaign, table
from bench.output import put_table, write_csv

HERE = Path(__file__).resolve().parent


def main(first: int, last: int) -> None:
    """Run the campaigns of these seeds on every surface, and write the results."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    rows: list[Row] = []
    campaigns = list(product(SURFACES, HOURS, range(first, last + 1)))
    with ProcessPoolExecutor(2, get_context("spawn")) as workers:
        for which, some in zip(
            campaigns, workers.map(campaign, *zip(*campaigns, strict=True)), strict=True
        ):
            rows += some
            print(*which, len(some), flush=True)
    write_csv(rows, HERE / "results.csv")
    put_table(HERE / "README.md", table(rows))


if __name__ == "__main__":
    parser = argparse.ArgumentParser("python -m bench.gains", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("first", type=int, metavar="FIRST_SEED")
    parser.add_argument("last", type=int, metavar="LAST_SEED")
    main(**vars(parser.parse_args()))
