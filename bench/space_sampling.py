"""Draws configurations from every search space, checks each, and reports the time taken.

Run ``python -m bench.space_sampling [NUMBER]`` (100,000 by default) on a quiet machine;
``space_sampling.txt`` next to this file has the figures of one run.
"""

from __future__ import annotations

import platform
import sys
import time

from search_spaces import Chance, draw, load, names


def main(number: int) -> None:
    """Print a line for each space: seconds for drawing and checking, distinct and invalid ones."""
    print(f"{number} configurations of each space; Python {platform.python_version()}")
    print(f"{'space':32}  draw s  check s  distinct  invalid")
    for name in names():
        space, ask = load(name), Chance(1)
        start = time.perf_counter()
        configurations = [draw(space, ask) for _ in range(number)]
        draw_s = time.perf_counter() - start
        invalid = sum(bool(space.violations(values)) for values in configurations)
        check_s = time.perf_counter() - start - draw_s
        distinct = len({tuple(values.items()) for values in configurations})
        print(
            f"{name:32}  {draw_s:6.2f}  {check_s:7.2f}  {distinct:8}  {invalid:7}",
            flush=True,
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
