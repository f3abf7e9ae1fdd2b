"""Evaluates the measures against noise: ``python -m bench.noise STATE_DIRECTORY...``.

Reads copies of the databases in these directories, as left by ``fstune --state-dir`` or
``bench.real_cell``, and writes ``results.csv`` and ``robust.csv`` next to this file.
"""

from __future__ import annotations

import sys
from pathlib import Path

from bench.noise.levels import Noise, copied, levels, write_levels
from bench.noise.robust import Robust, robust, summary, write_robust

HERE = Path(__file__).resolve().parent


def main(directories: list[Path]) -> None:
    """Put all campaigns of these state directories into one table."""
    noises: list[Noise] = []
    other: list[Robust] = []
    for directory in directories:
        with copied(directory) as store:
            noises += levels(store)
            other += robust(store)
    for each in noises:
        r = each.report
        text = ", ".join(
            f"{level.measure} {level.sd:.3f} ({level.share:.0%})" for level in r.levels
        )
        print(f"{each.campaign}: {r.arms} arms, {r.again} again: {text}; {r.adjustment}")
    for component, time, ratio, agreement, clarity in summary(other):
        text = f"variance x{ratio:.2f}, rank agreement {agreement:.2f}, shown {clarity:.2f}"
        print(f"{component} {time}: {text}")
    write_levels(noises, HERE / "results.csv")
    write_robust(other, HERE / "robust.csv")


if __name__ == "__main__":
    main([Path(each) for each in sys.argv[1:]])
