"""Times one decision of the judge over a thousand trials in thirty blocks.

Run ``python -m bench.decision [TRIALS] [BLOCKS]`` on a quiet machine; ``decision.txt`` next to this
file has the figures of one run.
"""

from __future__ import annotations

import platform
import sys
import time
from statistics import median

import numpy as np

from tuner.judge.race import RaceRules, RaceTable, decide_on

_RUNS = 15


def main(trials: int, blocks: int) -> None:
    """Print a line for each number of components: median and maximum time in milliseconds."""
    print(f"{trials} trials, {blocks} blocks; Python {platform.python_version()}")
    rules = RaceRules(delta=0.02, max_blocks=100)
    print("components  median ms  slowest ms")
    for components in (1, 7):
        rng = np.random.default_rng(components)
        # They differ by noise only, so that hardly anything is decided early.
        logs = rng.normal(0.0, 0.014, (trials + 1, blocks, components))
        table = RaceTable(
            tuple(range(trials + 1)),
            logs,
            np.zeros(blocks, dtype=np.int64),
            0,
            (1.0 / components,) * components,
        )
        took_s = []
        for _ in range(_RUNS):
            start = time.perf_counter()
            decided = decide_on(table, rules)
            took_s.append(time.perf_counter() - start)
            assert len(decided) == trials
        print(f"{components:10}  {median(took_s) * 1e3:9.1f}  {max(took_s) * 1e3:10.1f}")


if __name__ == "__main__":
    numbers = [int(word) for word in sys.argv[1:3]]
    main(*(numbers + [1000, 30][len(numbers) :]))
