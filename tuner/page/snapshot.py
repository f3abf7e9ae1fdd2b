"""Snapshots of campaigns: stored rows and derived figures, shared and updated incrementally."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime

from tuner.errors import OtherComponentsError
from tuner.judge.verdict import Verdict, assess
from tuner.model import BASELINE, Block, BlockKind, Campaign, Event, Recommendation, Trial
from tuner.page.incumbents import MOVES, Incumbents, Step, most_blocks
from tuner.plan.named_comparison import ORIGIN, comparison
from tuner.plan.rules import Rules, rules_if_known
from tuner.plan.scores import ScoreTable
from tuner.records.estimate import Estimate
from tuner.records.named_comparison import NamedComparison
from tuner.results.drift import DriftPoint, drift
from tuner.results.overview import read_on
from tuner.results.reference_comparison import estimate
from tuner.results.standing import against_baseline
from tuner.run.stored_floor import chosen_floor
from tuner.states import BlockState, EventKind
from tuner.store import Store
from tuner.store.pages import Pages

#: Campaigns are cached up to this many arms in total; the most recently used one always is.
_MOST_ARMS = 250_000
#: Number of the newest events kept. Of older ones, only the rare kinds are kept, and all of those.
_MOST_EVENTS = 200
_USUAL = (
    EventKind.MEASURED,
    EventKind.BLOCK_STARTED,
    EventKind.BLOCK_COMPLETE,
    EventKind.REFERENCE_MEASURED,
    EventKind.TRIAL_ADDED,
    EventKind.TRIAL_PRUNED,
    EventKind.TRIAL_COMPLETE,
)
#: Number of the newest blocks that a snapshot contains completely.
_WHOLE_BLOCKS = 30


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A campaign at one moment.

    ``newest``: number of its newest event, and so the number of events. ``events``: all of the rare
    kinds, and the newest of the others. ``estimates``: of every trial, by kind of
    block, with the number of blocks. ``components``: effects of the ``leader`` (the answer's trial,
    or the incumbent) by component, on certification blocks if any, otherwise on search blocks.
    ``recent``: the newest blocks, complete with measurements. ``scored``: the kind of every
    complete block, with the log scores of its arms.
    """

    newest: int
    campaign: Campaign
    trials: tuple[Trial, ...]
    events: tuple[Event, ...]
    blocks: int
    measured: int
    running: tuple[Block, ...]
    recent: tuple[Block, ...]
    measuring_s: float
    rules: Rules | None
    estimates: Mapping[BlockKind, Mapping[int, tuple[Estimate, int]]]
    drift: tuple[DriftPoint, ...]
    steps: tuple[Step, ...]
    scored: tuple[tuple[BlockKind, Mapping[int, float]], ...]
    leader: int
    components: dict[str, Estimate]

    @property
    def readable(self) -> bool:
        """Whether figures can be computed; false if the workload's file is gone or has changed."""
        return self.rules is not None

    @property
    def floor(self) -> float | None:
        """The largest loss allowed to one component; None if it is not known, or not yet."""
        return None if self.rules is None else self.rules.floor


@dataclass(frozen=True, slots=True)
class TrialComparison:
    """A trial compared with the baseline on the blocks of one kind."""

    trial: int
    kind: BlockKind
    verdict: Verdict


class SnapshotCache:
    """Reads campaigns of a store and caches those used most recently. Thread-safe.

    ``files``: whether workload files, whose paths the campaign's author chose, may be opened.
    """

    def __init__(self, store: Store, *, files: bool = True) -> None:
        self.store = store
        self.pages = Pages(store)
        self.measured_with = None if files else store.measured_with
        self._lock = threading.Lock()
        self._readers: OrderedDict[str, _CampaignReader] = OrderedDict()
        self._pool = ThreadPoolExecutor(2, "snapshots")
        self._pending: dict[str, Future[Snapshot]] = {}

    def close(self) -> None:
        """Start no further reads in the background."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def soon(self, campaign: str, wait_s: float) -> Snapshot | None:
        """Return the campaign as it is now, or None if it cannot be read within ``wait_s``.

        The first read of a long campaign then continues in the background. Raises NotFoundError.
        """
        if self._reader(campaign).has_snapshot:
            return self.of(campaign)
        with self._lock:
            pending = self._pending.get(campaign)
            if pending is None or pending.done():
                pending = self._pending[campaign] = self._pool.submit(self.of, campaign)
                pending.add_done_callback(lambda _: self._pending.pop(campaign, None))
        try:
            return pending.result(wait_s)
        except TimeoutError:
            return None

    def of(self, campaign: str) -> Snapshot:
        """Return the campaign with this full identifier as it is now. Raises NotFoundError."""
        return self._reader(campaign).snapshot()

    def verdicts(self, campaign: str) -> tuple[TrialComparison, ...] | None:
        """Compare every trial with the baseline on each kind of block, by kind and trial number.

        None if figures cannot be computed. Raises NotFoundError.
        """
        return self._reader(campaign).verdicts()

    def comparison(self, campaign: str) -> NamedComparison | None:
        """Return the results so far of a campaign that compares given configurations; None for one
        that searches, or if figures cannot be computed. Raises NotFoundError.
        """
        return self._reader(campaign).comparison()

    def _reader(self, campaign: str) -> _CampaignReader:
        with self._lock:
            reader = self._readers.get(campaign)
            if reader is None:
                reader = self._readers[campaign] = _CampaignReader(self, campaign)
            self._readers.move_to_end(campaign)
            arms = sum(one.arms for one in self._readers.values())
            while arms > _MOST_ARMS and len(self._readers) > 1:
                arms -= self._readers.popitem(last=False)[1].arms
        return reader


class _CampaignReader:
    """One campaign's incremental state: its figures so far, and how far its rows were read."""

    def __init__(self, cache: SnapshotCache, campaign: str) -> None:
        self._store = cache.store
        self._pages = cache.pages
        self._measured_with = cache.measured_with
        self._id = campaign
        self._lock = threading.Lock()
        self._snapshot: Snapshot | None = None
        self._rules: Rules | None = None
        self._table: ScoreTable | None = None
        self._events: list[Event] = []
        self._trials: tuple[Trial, ...] = ()
        self._started: dict[int, datetime] = {}
        self._incumbents = Incumbents()
        self._estimates: dict[BlockKind, dict[int, tuple[Estimate, int]]] = {}
        self._verdicts: dict[tuple[BlockKind, int], tuple[int, TrialComparison]] = {}
        #: The comparison that it makes, and the number of the event up to which it was computed.
        self._comparison: tuple[int, NamedComparison | None] = (0, None)

    @property
    def arms(self) -> int:
        """Number of arms cached."""
        return 0 if self._table is None else self._table.measurements

    @property
    def has_snapshot(self) -> bool:
        """Whether there is a snapshot already, so that only new rows need to be read."""
        return self._snapshot is not None

    def snapshot(self) -> Snapshot:
        """Return the campaign as it is now."""
        newest = self._pages.newest_event(self._id)
        last = self._snapshot
        if last is not None and last.newest == newest:
            return last
        with self._lock:
            # Read first, so that it is never ahead. Another thread may have updated the snapshot.
            newest = self._pages.newest_event(self._id)
            if self._snapshot is None or self._snapshot.newest != newest:
                self._snapshot = self._build(newest)
            return self._snapshot

    def verdicts(self) -> tuple[TrialComparison, ...] | None:
        """See ``SnapshotCache.verdicts``."""
        self.snapshot()
        with self._lock:
            if self._rules is None or self._table is None:
                return None
            return tuple(
                self._verdict(self._rules, kind, trial, values)
                for kind in BlockKind
                for trial, values in sorted(self._table.pairs(kind).items())
            )

    def comparison(self) -> NamedComparison | None:
        """See ``SnapshotCache.comparison``."""
        newest = self.snapshot().newest
        with self._lock:
            if self._rules is None or self._table is None:
                return None
            if self._comparison[0] < newest:
                result = comparison(self._trials, self._table, self._rules)
                self._comparison = (newest, result)
            return self._comparison[1]

    def _verdict(
        self, rules: Rules, kind: BlockKind, trial: int, values: Sequence[float]
    ) -> TrialComparison:
        count, comparison = self._verdicts.get((kind, trial), (0, None))
        if comparison is None or count != len(values):
            verdict = assess(values, delta=rules.race.delta, max_n=most_blocks(rules, kind))
            comparison = TrialComparison(trial, kind, verdict)
            self._verdicts[kind, trial] = (len(values), comparison)
        return comparison

    def _build(self, newest: int) -> Snapshot:
        before = 0 if self._snapshot is None else self._snapshot.newest
        campaign = self._store.campaign(self._id)
        events = self._read_events(before, newest, campaign.recommendation)
        # Every change of a trial has an event: without a new one the trials are unchanged.
        if not before or any("trial" in e.kind or "campaign" in e.kind for e in events):
            self._trials = tuple(self._store.trials(self._id))
        table = self._read_blocks(campaign)
        if self._rules is not None:
            self._rules = chosen_floor(self._events, self._rules)
        totals = self._pages.totals(self._id, 0 if table is None else table.newest)
        recent = tuple(self._store.blocks(self._id, max(0, totals.newest_block - _WHOLE_BLOCKS)))
        rules = self._rules
        leader = (
            self._incumbents.now
            if campaign.recommendation is None
            else campaign.recommendation.trial
        )
        scored: list[tuple[BlockKind, Mapping[int, float]]] = []
        points: list[DriftPoint] = []
        if table is not None and rules is not None:
            scored = [(one.block.kind, one.scores) for one in table.scored]
            points = drift(table, self._started)
            self._estimate(table, rules)
        return Snapshot(
            newest=newest,
            campaign=campaign,
            trials=self._trials,
            events=tuple(self._events),
            blocks=totals.blocks + (0 if table is None else len(table.ended_blocks)),
            measured=totals.measurements + (0 if table is None else table.measurements),
            running=tuple(block for block in recent if block.state is BlockState.RUNNING),
            recent=recent,
            measuring_s=totals.seconds + (0.0 if table is None else table.seconds),
            rules=rules,
            estimates={kind: dict(of) for kind, of in self._estimates.items()},
            drift=tuple(points),
            steps=() if table is None or rules is None else self._incumbents.steps(table, rules),
            scored=tuple(scored),
            leader=leader,
            components={} if table is None or rules is None else _effects(table, rules, leader),
        )

    def _read_events(self, after: int, newest: int, answer: Recommendation | None) -> list[Event]:
        """Read the events after ``after``; the first time, only rare ones and the newest."""
        if not after:
            rare = self._pages.events(self._id, 0, without=_USUAL)
            last = self._pages.events(self._id, 0, last=_MOST_EVENTS)
            new = [event for _, event in sorted({e.number: e for e in (*rare, *last)}.items())]
            moves = self._store.events(self._id, kinds=MOVES)
        else:
            new = moves = self._pages.events(self._id, after)
        new = [event for event in new if event.number <= newest]
        self._follow_incumbent([event for event in moves if event.number <= newest], answer)
        self._events = _thinned([*self._events, *new])
        return new

    def _follow_incumbent(self, moves: list[Event], answer: Recommendation | None) -> None:
        """Record after which block the incumbent changed, from the corresponding events."""
        for event in moves:
            if self._incumbents.follow(event, answer):
                end = self._pages.block_complete_before(self._id, event.number)
                block = end.data.get("block") if end is not None else 0
                self._incumbents.add(block if isinstance(block, int) else 0)

    def _read_blocks(self, campaign: Campaign) -> ScoreTable | None:
        """Return the table of all blocks that have ended; None if they cannot be read."""
        if self._rules is None:
            self._rules = rules_if_known(campaign, self._measured_with)
        rules, table = self._rules, self._table
        if rules is None:
            return None
        # Comparisons are judged by their times; they have few configurations.
        compares = any(trial.origin.startswith(ORIGIN) for trial in self._trials)
        if table is None or compares is not table.keeps_times:
            table = ScoreTable(rules.components, rules.weights, keep_times=compares)
        try:
            read_on(table, self._store, self._id)
        except OtherComponentsError:
            self._rules = self._table = None
            return None
        last = max(self._started, default=0)
        self._started |= self._pages.baseline_started(self._id, last)
        self._table = table
        return table

    def _estimate(self, table: ScoreTable, rules: Rules) -> None:
        for kind in BlockKind:
            estimates = self._estimates.setdefault(kind, {})
            pairs = table.pairs(kind).items()
            stale = [
                t for t, values in pairs if t not in estimates or estimates[t][1] != len(values)
            ]
            estimates |= against_baseline(table, rules, kind, stale)


def _thinned(events: list[Event]) -> list[Event]:
    """Return all events of the rare kinds, and the newest of the others."""
    rare = [event for event in events[:-_MOST_EVENTS] if event.kind not in _USUAL]
    return [*rare, *events[-_MOST_EVENTS:]]


def _effects(table: ScoreTable, rules: Rules, trial: int) -> dict[str, Estimate]:
    """Estimate a trial's effect on each component, on certification blocks if there are any."""
    for kind in (BlockKind.CERTIFY, BlockKind.SEARCH):
        if trial != BASELINE and trial in table.pairs(kind):
            logs = table.logs(trial, kind)
            by_component = (logs[1] - logs[0]).T
            most = most_blocks(rules, kind)
            return {
                n: estimate(d, most) for n, d in zip(rules.components, by_component, strict=True)
            }
    return {}
