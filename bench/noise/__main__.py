"""What the measures against noise brought: ``python -m bench.noise STATE_DIRECTORY...``.

Reads copies of the databases in these directories, as ``fstune --state-dir`` or ``bench.real_cell``
leave them, and writes ``results.csv`` and ``robust.csv`` beside this file.
"""

from __future__ import annotations

import sys
from pathlib import Path

from bench.noise.levels import Noise, copied, levels, write_levels
from bench.noise.robust import Robust, robust, summary, write_robust

HERE = Path(__file__).resolve().parent


def main(directories: list[Path]) -> None:
    """Put all campaigns of these state directories into one table."""
    found: list[Noise] = []
    other: list[Robust] = []
    for directory in directories:
        with copied(directory) as store:
            found += levels(store)
            other += robust(store)
    for each in found:
        r = each.report
        told = ", ".join(
            f"{level.measure} {level.sd:.3f} ({level.share:.0%})" for level in r.levels
        )
        print(f"{each.campaign}: {r.arms} arms, {r.again} again: {told}; {r.adjustment}")
    for component, time, ratio, agreement, shown in summary(other):
        told = f"variance x{ratio:.2f}, rank agreement {agreement:.2f}, shown {shown:.2f}"
        print(f"{component} {time}: {told}")
    write_levels(found, HERE / "results.csv")
    write_robust(other, HERE / "robust.csv")


if __name__ == "__main__":
    main([Path(each) for each in sys.argv[1:]])
