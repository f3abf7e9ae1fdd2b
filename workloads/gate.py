"""Gates hold a stage back until it is released, so that several clients start together.

A gate opens when the controller sends a line on standard input, or at a given wall-clock time.
"""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Callable

from workloads.failure import Failure, WorkloadFailure

Gate = Callable[[str, float], None]
"""Called with the name of what is about to start and the deadline (``time.monotonic``).

Returns when it may start; raises WorkloadFailure of kind ``start-gate``.
"""

_NAP_S = 0.5


def open_gate(what: str, deadline: float) -> None:
    """Return at once."""


def wait_for_line(what: str, deadline: float) -> None:
    """Print ``ready WHAT`` on standard error and wait for a line on standard input."""
    print(f"ready {what}", file=sys.stderr, flush=True)
    while True:
        left_s = deadline - time.monotonic()
        if left_s <= 0 or not select.select([0], [], [], left_s)[0]:
            raise _failure(what, "no line on standard input within the spec's wall_clock_limit_s")
        # Read byte by byte: anything after the line belongs to the next gate.
        byte = os.read(0, 1)
        if not byte:
            raise _failure(what, "standard input ended")
        if byte == b"\n":
            return


def at(epoch_s: float) -> Gate:
    """Return a gate that opens at a given time (seconds since 1970, by this host's clock)."""

    def wait(what: str, deadline: float) -> None:
        if epoch_s < time.time():
            raise _failure(what, f"ready {time.time() - epoch_s:.3f} s after the time to start")
        while True:
            left_s = epoch_s - time.time()
            if left_s <= 0:
                return
            if time.monotonic() > deadline:
                raise _failure(
                    what, "the time to start is not within the spec's wall_clock_limit_s"
                )
            time.sleep(min(left_s, _NAP_S))

    return wait


def _failure(what: str, why: str) -> WorkloadFailure:
    return WorkloadFailure(Failure("start-gate", "start", what, None, why))
