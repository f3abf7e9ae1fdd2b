"""Times whole commands, alternating between this checkout and another one.

Run ``python -m bench.start_up OTHER [ROUNDS]`` on a quiet machine, where OTHER is a checkout of
another version (``git worktree add /tmp/other COMMIT``); ``start_up.txt`` next to this file has the
figures of one run. Both are run by this interpreter, so that their dependencies are the same.
"""

from __future__ import annotations

import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

_HERE = Path(__file__).resolve().parent.parent
_MAIN = "from tuner.cli import main; main()"
_ROUNDS = 15

_COMMANDS = (
    "--version",
    "--help",
    "space list",
    "space show openafs-fileserver-1.8",
    "workload list",
    "run campaign.yaml",
    "status",
    "list",
    "show",
    "recommend",
)

#: Simulated and small, so that most of the time is start-up.
_CAMPAIGN = """
name: start-up
testbed: {simulated: {noise: 0.004}}
spaces: {cache_manager: {name: openafs-cache-manager-fuse-1.8, only: [daemons]}}
workload: mixed-use
pilot: {blocks: 0}
search: {arms: 2, blocks_per_trial: 5, max_trials: 2}
budget: {wall_time: 10m}
"""


def main(other: Path, rounds: int) -> None:
    """Print a line for each command: median wall and processor time in milliseconds.

    The ratio is of processor times, which are less affected by other work on the machine.
    """
    print(f"{rounds} rounds; Python {platform.python_version()}")
    print(f"{'':33}  {'passed':>12}  {'processor':>12}")
    print(f"{'command':33}  {'other   this':>12}  {'other   this':>12}  other/this")
    with tempfile.TemporaryDirectory() as directory:
        places = [Path(directory) / name for name in ("other", "this")]
        for place in places:
            place.mkdir()
            (place / "campaign.yaml").write_text(_CAMPAIGN)
        for command in _COMMANDS:
            # The first round creates the database and the compiled files, and is not counted.
            took_s = [
                [_run(command, *where) for where in zip((other, _HERE), places, strict=True)]
                for _ in range(rounds + 1)
            ][1:]
            (passed, cpu), (passed_here, cpu_here) = np.median(took_s, axis=0) * 1e3
            print(
                f"{command:33}  {passed:5.0f}  {passed_here:5.0f}  {cpu:5.0f}  {cpu_here:5.0f}"
                f"  {cpu / cpu_here:10.2f}",
                flush=True,
            )


def _run(command: str, checkout: Path, place: Path) -> tuple[float, float]:
    """Run a command; return its wall time and processor time, in seconds."""
    environment = {**os.environ, "PYTHONPATH": str(checkout), "FSTUNE_STATE_DIR": str(place)}
    before, start = _processor_s(), time.perf_counter()
    result = subprocess.run(
        [sys.executable, "-c", _MAIN, *command.split()],
        cwd=place,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        check=False,
    )
    passed_s = time.perf_counter() - start
    # 3: nothing is better than the baseline, which takes as long to say.
    assert result.returncode in (0, 3), command
    return passed_s, _processor_s() - before


def _processor_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), int(sys.argv[2]) if len(sys.argv) > 2 else _ROUNDS)
