"""Linear algebra in one thread."""

from __future__ import annotations

import os
import subprocess
import sys


def test_all_libraries_use_one_thread_and_afterwards_as_many_as_before() -> None:
    script = """
from tuner.propose.one_thread import one_thread
with one_thread():
    import scipy.linalg
    from threadpoolctl import threadpool_info, threadpool_limits
    print(*(pool["num_threads"] for pool in threadpool_info()))
with threadpool_limits(3):
    with one_thread():
        print(*(pool["num_threads"] for pool in threadpool_info()))
    print(*(pool["num_threads"] for pool in threadpool_info()))
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=dict(os.environ, OPENBLAS_NUM_THREADS="3"),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
    )
    assert [set(line.split()) for line in done.stdout.splitlines()] == [{"1"}, {"1"}, {"3"}]
