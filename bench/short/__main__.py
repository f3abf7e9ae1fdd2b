"""Runs the study: ``python -m bench.short FIRST_SEED LAST_SEED``; see README.md.

Writes ``results.csv`` next to this file and the table of ``README.md``; the same code gives the
same figures every time.
"""

from __future__ import annotations

import argparse
import os
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from bench.output import put_table, write_csv
from bench.short.study import SURFACES, Row, campaign, table

HERE = Path(__file__).resolve().parent


def main(first: int, last: int) -> None:
    """Run the campaigns of these seeds on every surface, and write the results."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    rows: list[Row] = []
    with ProcessPoolExecutor(2, get_context("spawn")) as workers:
        for surface in SURFACES:
            for row in workers.map(partial(campaign, surface), range(first, last + 1)):
                rows.append(row)
                print(row, flush=True)
    write_csv(rows, HERE / "results.csv")
    put_table(HERE / "README.md", table(rows))


if __name__ == "__main__":
    parser = argparse.ArgumentParser("python -m bench.short", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("first", type=int, metavar="FIRST_SEED")
    parser.add_argument("last", type=int, metavar="LAST_SEED")
    main(**vars(parser.parse_args()))
