"""Runs a series: ``python -m bench.real_cell KIND FIRST_SEED LAST_SEED``.

Runs the campaign of ``make tune`` with one seed after another, and measures each recommendation
against the default in 20 fresh blocks. ``quickstart``: as it is, about 13 minutes each.
``half-hour``: with a budget of 30 minutes, about 35 minutes each. The results are meaningless if
anything else runs on the machine. Needs root. Writes each result to ``results.csv`` next to this
file; those of other seeds stay, so that a series may be run in pieces.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import yaml

from bench.real_cell.series import HERE, KINDS, QUICKSTART, campaign, measured_again, record


def main(kind: str, first: int, last: int) -> None:
    """Run the campaigns of these seeds."""
    document = yaml.safe_load(QUICKSTART.read_text(encoding="utf-8")) | KINDS[kind]
    # Not removed: it has the campaigns and their output.
    directory = Path(tempfile.mkdtemp(prefix="fstune-series-"))
    print(directory, flush=True)
    for seed in range(first, last + 1):
        row, finished = campaign(kind, seed, document, directory)
        row = measured_again(row, finished, document, directory)
        print(row, flush=True)
        record(row, HERE / "results.csv")


if __name__ == "__main__":
    parser = argparse.ArgumentParser("python -m bench.real_cell", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("first", type=int, metavar="FIRST_SEED")
    parser.add_argument("last", type=int, metavar="LAST_SEED")
    main(**vars(parser.parse_args()))
