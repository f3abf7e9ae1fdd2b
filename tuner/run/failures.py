"""Which trials are to blame for workload runs that fail, and how many runs of a trial have failed.

A run that fails is repeated at once (``measuring.py``). A trial whose run fails again is left out
of its block. It is to blame for that if its testbed works, which another arm of the block shows if
it runs afterwards, or if it was left out before, in this run or an earlier one. On several
testbeds, it must have been left out on two of them, or of two blocks on the same one in which other
arms ran.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import tuner
from tuner.model import BASELINE, Block, BlockTimes
from tuner.states import EventKind
from tuner.store import Store
from tuner.text import counted

#: Data of ``EventKind.STARTED``. Releases without it did not store an event for every failed run.
RELEASE: Mapping[str, str] = {"fstune": tuner.__version__}


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A trial that was left out of a block on a testbed. ``others_ran``: another arm had been
    measured in that block by then, so the testbed itself works.
    """

    trial: int
    testbed: str | None
    others_ran: bool = False


class Failures:
    """The failures of a run's trials, across all of its testbeds. Thread-safe.

    ``testbeds``: the number of testbeds in use. If there are several, a trial that goes wrong on
    only one of them may have met with a passing fault there, so it must do so once more.
    """

    def __init__(self, earlier: Iterable[LeftOut] = ()) -> None:
        """``earlier``: what ``left_out`` returns for the earlier runs of the campaign."""
        self.testbeds = 1
        self.lock = threading.RLock()
        self._left_out = list(earlier)
        self._failed: set[int] = set()

    @property
    def failed(self) -> Collection[int]:
        """The trials that have failed in this run."""
        with self.lock:
            return frozenset(self._failed)

    def is_to_blame(self, now: LeftOut, *, works: bool) -> bool:
        """Record that a trial was left out of a block; returns whether it is to blame for that.
        ``works``: whether another arm ran afterwards.
        """
        with self.lock:
            self._left_out.append(now)
            own = [each for each in self._left_out if each.trial == now.trial]
            if self.testbeds == 1:
                return works or len(own) > 1
            elsewhere = any(each.testbed != now.testbed for each in own)
            return elsewhere or own.count(replace(now, others_ran=True)) > 1

    def is_new(self, trial: int) -> bool:
        """Mark a trial as failed; returns whether it had not failed before."""
        with self.lock:
            new = trial not in self._failed
            self._failed.add(trial)
            return new


def left_out(store: Store, campaign: str, blocks: Sequence[Block | BlockTimes]) -> list[LeftOut]:
    """Return each trial that was left out of a block and had not failed by then.

    ``blocks``: tell the testbed for events of earlier versions, which lack it.
    """
    testbeds = {block.number: block.testbed for block in blocks}
    trials: list[LeftOut] = []
    for event in store.events(campaign, kinds=[EventKind.LEFT_OUT]):
        trial, block = event.data.get("trial"), event.data.get("block")
        # Earlier versions imported events without checking their data.
        if isinstance(trial, int) and isinstance(block, int):
            testbed = event.data.get("testbed", testbeds.get(block))
            others_ran = event.data.get("others_ran") is True
            trials.append(LeftOut(trial, None if testbed is None else str(testbed), others_ran))
    return trials


def failed_runs(store: Store, campaign: str, trial: int) -> tuple[str, ...]:
    """Return caveats for a trial if any of its runs failed, or cut off a block: no measurement
    contains those.
    """
    return (*_cut_off(store, campaign, trial), *_repeated(store, campaign, trial))


def _cut_off(store: Store, campaign: str, trial: int) -> tuple[str, ...]:
    """Return a caveat if blocks were cut off because a host failed during a run of the trial."""
    voids = store.events(campaign, kinds=[EventKind.BLOCK_VOID])
    cut_off = Counter(event.data.get("trial") for event in voids)
    if not cut_off[trial]:
        return ()
    return (
        f"{counted(cut_off[trial], 'block')} did not count, as a host or its connection failed "
        f"during a run of this configuration; {cut_off[BASELINE]} during one of the baseline's",
    )


def _repeated(store: Store, campaign: str, trial: int) -> tuple[str, ...]:
    kinds = (
        EventKind.STARTED,
        EventKind.MEASURED,
        EventKind.MEASURED_AGAIN,
        EventKind.RUN_FAILED,
    )
    events = store.events(campaign, kinds=kinds)
    runs = Counter(event.data.get("trial") for event in events)
    failed = Counter(e.data.get("trial") for e in events if e.kind == EventKind.RUN_FAILED)
    if not failed[trial]:
        return ()
    starts = [event for event in events if event.kind == EventKind.STARTED]
    if any(start.data.keys().isdisjoint(RELEASE) for start in starts):
        return (
            f"at least {counted(failed[trial], 'run')} of this configuration failed, and at least "
            f"{failed[BASELINE]} of the baseline's: an earlier release, with which part of "
            "this campaign was measured, did not count all of them",
        )
    own, baselines = (f"{failed[one]} of {runs[one]}" for one in (trial, BASELINE))
    return (
        f"{own} runs of this configuration failed, and were repeated or left out; {baselines} of "
        "the baseline's did",
    )
