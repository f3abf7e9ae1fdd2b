"""Runs a series: ``python -m bench.real_cell [FIRST_SEED] [LAST_SEED]`` (1 to 10 by default).

Runs the campaign of ``make tune`` with one seed after another, and measures each recommendation
against the default in 20 fresh blocks. Takes about 13 minutes each; the results are meaningless if
anything else runs on the machine. Needs root. Writes each result to ``results.csv`` next to this
file; those of other seeds stay, so that a series may be run in pieces.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import yaml

from bench.real_cell.series import campaign, record

HERE = Path(__file__).resolve().parent
QUICKSTART = HERE.parents[1] / "deploy" / "quickstart.yaml"


def main(first: int, last: int) -> None:
    """Run the campaigns of these seeds."""
    document = yaml.safe_load(QUICKSTART.read_text(encoding="utf-8"))
    # Not removed: it has the campaigns and their output.
    directory = Path(tempfile.mkdtemp(prefix="fstune-series-"))
    print(directory, flush=True)
    for seed in range(first, last + 1):
        row = campaign("quickstart", seed, document, directory)
        print(row, flush=True)
        record(row, HERE / "results.csv")


if __name__ == "__main__":
    numbers = [int(each) for each in sys.argv[1:3]]
    main(*numbers) if len(numbers) == 2 else main(1, numbers[0] if numbers else 10)
