"""Which trials are to blame for workload runs that fail, and how many runs of a trial have failed.

A run that fails is repeated at once. A trial whose run fails again is left out of its block. It is
to blame for that if its testbed works, which another arm of the block shows if it runs afterwards,
or if it was left out before, in this run or an earlier one. On several testbeds, it must have been
left out on two of them.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Sequence

from tuner.model import BASELINE, Block, BlockTimes
from tuner.states import EventKind
from tuner.store import Store


class Failures:
    """The failures of a run's trials, across all of its testbeds. Thread-safe.

    ``testbeds``: the number of testbeds in use. If there are several, a trial that goes wrong on
    only one of them is not to blame.
    """

    def __init__(self, earlier: Iterable[tuple[int, str | None]] = ()) -> None:
        """``earlier``: what ``left_out`` returns for the earlier runs of the campaign."""
        self.testbeds = 1
        self.lock = threading.RLock()
        self._left_out: dict[int, list[str | None]] = {}
        self._failed: set[int] = set()
        for trial, testbed in earlier:
            self._left_out.setdefault(trial, []).append(testbed)

    def is_to_blame(self, trial: int, testbed: str | None, *, works: bool) -> bool:
        """Record that a trial was left out of a block; returns whether it is to blame for that.
        ``works``: whether another arm ran afterwards.
        """
        with self.lock:
            where = self._left_out.setdefault(trial, [])
            where.append(testbed)
            if self.testbeds > 1:
                return len(set(where)) > 1
            return works or len(where) > 1

    def is_new(self, trial: int) -> bool:
        """Mark a trial as failed; returns whether it had not failed before."""
        with self.lock:
            new = trial not in self._failed
            self._failed.add(trial)
            return new


def left_out(
    store: Store, campaign: str, blocks: Sequence[Block | BlockTimes]
) -> list[tuple[int, str | None]]:
    """Return each trial that was left out of a block and had not failed by then, with the testbed.

    ``blocks``: tell the testbed for events of earlier versions, which lack it.
    """
    testbeds = {block.number: block.testbed for block in blocks}
    pairs: list[tuple[int, str | None]] = []
    for event in store.events(campaign, kinds=[EventKind.LEFT_OUT]):
        trial, block = event.data.get("trial"), event.data.get("block")
        # Earlier versions imported events without checking their data.
        if isinstance(trial, int) and isinstance(block, int):
            testbed = event.data.get("testbed", testbeds.get(block))
            pairs.append((trial, None if testbed is None else str(testbed)))
    return pairs


def failed_runs(store: Store, campaign: str, trial: int) -> tuple[str, ...]:
    """Return a caveat for a trial if any of its runs failed: no measurement contains those."""
    kinds = (EventKind.MEASURED, EventKind.MEASURED_AGAIN, EventKind.RUN_FAILED)
    events = store.events(campaign, kinds=kinds)
    runs = Counter(event.data.get("trial") for event in events)
    failed = Counter(e.data.get("trial") for e in events if e.kind == EventKind.RUN_FAILED)
    if not failed[trial]:
        return ()
    own, baselines = (f"{failed[one]} of {runs[one]}" for one in (trial, BASELINE))
    return (
        f"{own} runs of this configuration failed, and were repeated or left out; {baselines} of "
        "the baseline's did",
    )
