"""Times the fit of the model of effects: by the matrix of the rows, and by that of the weights.

Run ``python -m bench.model_fit`` on a quiet machine (a minute); ``model_fit.txt`` next to this file
has the figures of one run.
"""

from __future__ import annotations

import math
import platform
import time

from tuner.judge.score import margin
from tuner.propose import regression
from tuner.propose.candidates import Candidates
from tuner.propose.encoding import Tunable
from tuner.propose.objective import Objective
from tuner.propose.search import Search
from tuner.propose.search_trials import Arm, SearchTrial
from tuner.services.simulated.testbed import FACTS
from tuner.simulate.surface import load_surface

#: Arms per block besides the baseline.
_ARMS = 10


def _seconds(count: int, few_rows: float, repeats: int) -> float:
    """Return the least processor time of fits to ``count`` configurations, each measured once."""
    surface = load_surface("interactions-many")
    tunables = {
        part: Tunable(space, FACTS, surface.baseline.part(part))
        for part, space in surface.spaces.items()
    }
    objective = Objective(
        weights=surface.workload.weights, floor=margin(surface.floor), tolerance=(0.005, 0.02)
    )
    configurations = Candidates(tunables, "bench").random(count)
    sampler = surface.sampler(1, 0.1)
    arms = []
    for first in range(0, count, _ARMS):
        block = first // _ARMS + 1
        order = [surface.baseline, *configurations[first : first + _ARMS]]
        for place, outcome in enumerate(sampler.block(block, order)):
            logs = tuple(math.log(outcome.seconds[name]) for name in surface.components)
            arms.append(Arm(first + place if place else 0, block, logs))
    trials = [SearchTrial(number, each) for number, each in enumerate(configurations, 1)]
    regression._FEW_ROWS = few_rows
    times = []
    for _ in range(repeats):
        start = time.process_time()
        Search(tunables, surface.baseline, trials, arms, objective, "1")
        times.append(time.process_time() - start)
    return min(times)


def main() -> None:
    """Print a line for each number of arms: seconds with both matrices, and with the faster one."""
    few_rows = regression._FEW_ROWS
    print(f"one fit, processor time, least of 7; Python {platform.python_version()}")
    print("arms  by weights s  by rows s  as usual s  by weights / as usual")
    for count in (20, 60, 150, 400):
        weights, rows, usual = (_seconds(count, few, 7) for few in (0.0, math.inf, few_rows))
        line = f"{count:4}  {weights:12.3f}  {rows:9.3f}  {usual:11.3f}"
        print(f"{line}  {weights / usual:22.1f}", flush=True)


if __name__ == "__main__":
    main()
