"""Watch a campaign that another process runs, via the store or a server, until it stops."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

import typer

from tuner.cli.ending import CampaignEnd, stored_end, tell_end
from tuner.cli.say import say
from tuner.errors import INTERRUPTED, ConflictError, SpecError, TunerError, of_kind
from tuner.model import BASELINE, Block, BlockKind, Campaign, Event, Trial
from tuner.plan.rules import stored_rules
from tuner.plan.scores import ScoreTable
from tuner.records.estimate import Estimate
from tuner.records.status import Absence
from tuner.report.listing import output
from tuner.report.log import LogForm, LogProgress
from tuner.report.progress import Progress, progress_for
from tuner.results.external_standing import incumbent_after, outside_standing
from tuner.results.overview import read_on
from tuner.results.standing import against_baseline
from tuner.run.presence import absence
from tuner.states import OVER, BlockState, CampaignState, EventKind
from tuner.store import Store
from tuner.store.pages import Pages
from tuner.text import clean

_LOOKS_PER_S = 2.0
_STANDINGS_PER_S = 0.5
#: Polls per presence check: its process sends heartbeats much more rarely than it is polled.
_LOOKS_A_PRESENCE = 10
_STOPPED = (CampaignState.PAUSED, CampaignState.FAILED)
#: Kinds of events that end a run, report that it could not start, or end the waiting for another.
_STOPS = (
    EventKind.PAUSED,
    EventKind.FAILED,
    EventKind.START_FAILED,
    EventKind.PAUSE_REQUESTED,
)
_RESTORED = (EventKind.RESTORED, EventKind.TESTBED_CLOSED)
#: Kinds of events that a live view needs however old they are.
_LASTING = (
    EventKind.STARTED,
    EventKind.TRIAL_PROMOTED,
    EventKind.TRIAL_PRUNED,
    EventKind.TRIAL_FAILED,
    *_RESTORED,
    *_STOPS,
)
#: Events read at a time, and the newest ones that a live view reads whatever their kind: there are
#: up to some eighty in a block.
_AT_A_TIME = 500


@dataclass(frozen=True, slots=True)
class Blocks:
    """How far a campaign is. ``last``: its newest block, without measurements; ``complete``: number
    of complete blocks of that kind; ``measurements``: of all blocks.
    """

    last: Block
    complete: int
    measurements: int


def needed_events(
    newest: Callable[[int], list[Event]], of_kinds: Callable[[Sequence[str]], list[Event]]
) -> list[Event]:
    """Return the events that a live view needs: the newest, and of all others those of lasting
    kinds.
    """
    last = newest(_AT_A_TIME)
    if len(last) < _AT_A_TIME:
        return last
    return [event for event in of_kinds(_LASTING) if event.number < last[0].number] + last


class Source(Protocol):
    """Where a campaign's records are read from."""

    #: The options that make a command use the same place.
    options: str

    def campaign(self) -> Campaign:
        """Return the campaign as it is now."""

    def events(self, after: int) -> list[Event]:
        """Return the events so far with numbers above ``after``."""

    def earlier(self, after: int) -> list[Event]:
        """Return the events so far with numbers above ``after`` that a live view needs, the newest
        last; none if they can only be followed.
        """

    def follow(
        self,
        after: int,
        lost: Callable[[str], None],
        missed: Callable[[Absence | None], None],
    ) -> Iterator[Event]:
        """Yield the events with numbers above ``after`` as they happen, until the campaign is over.

        ``lost`` receives the reason while the source is unreachable, and "" once it is reachable
        again; ``missed`` receives the reason while the campaign makes no progress although it
        should, and None while it does.
        """

    def trials(self) -> list[Trial]:
        """Return the trials."""

    def blocks(self) -> Blocks | None:
        """Return the newest block and the numbers of blocks; None before the first."""

    def estimates(self, kind: BlockKind) -> dict[int, tuple[Estimate, int]]:
        """Return, by trial, its estimate from blocks of a kind, and the number of those blocks."""

    def end(self) -> CampaignEnd:
        """Return the state of a campaign that nobody runs any more."""


class StoreSource:
    """A campaign in a store."""

    options = ""

    def __init__(self, store: Store, campaign: str) -> None:
        self._store = store
        self._pages = Pages(store)
        self._id = campaign
        self._scores: ScoreTable | None = None

    def campaign(self) -> Campaign:
        """Return the stored campaign."""
        return self._store.campaign(self._id)

    def events(self, after: int) -> list[Event]:
        """Return the stored events."""
        return self._store.events(self._id, after)

    def earlier(self, after: int) -> list[Event]:
        """Read them from the store."""
        return needed_events(
            lambda count: self._pages.events(self._id, after, last=count),
            lambda kinds: self._store.events(self._id, after, kinds=kinds),
        )

    def follow(
        self,
        after: int,
        lost: Callable[[str], None],
        missed: Callable[[Absence | None], None],
    ) -> Iterator[Event]:
        """Poll twice a second."""
        looks = 0
        while True:
            # Read the state first: once it is over, its last events are stored already.
            over = self.campaign().state in OVER
            while events := self._store.events(self._id, after, _AT_A_TIME):
                for event in events:
                    after = event.number
                    yield event
            if over:
                return
            if looks % _LOOKS_A_PRESENCE == 0:
                missed(absence(self._store, self._id))
            looks += 1
            time.sleep(1.0 / _LOOKS_PER_S)

    def trials(self) -> list[Trial]:
        """Return the stored trials."""
        return self._store.trials(self._id)

    def blocks(self) -> Blocks | None:
        """Count the stored blocks."""
        counts = self._pages.block_counts(self._id)
        rows = self._pages.blocks(self._id, self._pages.totals(self._id).newest_block - 1, 1)
        if not rows:
            return None
        last = rows[0].block
        return Blocks(
            last=last,
            complete=sum(
                count.blocks
                for count in counts
                if count.kind is last.kind and count.state is BlockState.COMPLETE
            ),
            measurements=sum(count.measurements for count in counts),
        )

    def estimates(self, kind: BlockKind) -> dict[int, tuple[Estimate, int]]:
        """Compute the estimates from the stored blocks, of which only the new ones are read; none
        if the workload's file is gone.
        """
        try:
            rules = stored_rules(self.campaign())
            if self._scores is None:
                self._scores = ScoreTable(rules.components, rules.weights, keep_times=False)
            read_on(self._scores, self._store, self._id)
            return against_baseline(self._scores, rules, kind)
        except SpecError:
            return {}

    def end(self) -> CampaignEnd:
        """Return the end of the stored campaign."""
        return stored_end(self._store, self.campaign())


class _Teller:
    """Forwards events and standings to a progress, and records what the final page needs."""

    def __init__(self, source: Source, progress: Progress, *, live: bool) -> None:
        self._source = source
        self._progress = progress
        self._live = live
        self._last_look = 0.0
        self._incumbent = BASELINE
        self._began = datetime.now(UTC)
        self._missed = False
        self.last: Event | None = None
        self.restored: list[str] = []

    def say(self, event: Event) -> None:
        """Show an event and, at intervals, the campaign's standing."""
        self.note(event)
        if self._live and time.monotonic() - self._last_look > 1.0 / _STANDINGS_PER_S:
            self.look()

    def note(self, event: Event) -> None:
        """Show an event."""
        self.last = event
        self._progress.say(event)
        self._incumbent = incumbent_after((event,), self._incumbent)
        if event.kind == EventKind.STARTED:
            self._began, self.restored = event.at, []
        elif event.kind in _RESTORED:
            self.restored.append(event.message)
        if event.kind.startswith("block-"):
            self._progress.doing(event.message if event.kind == EventKind.BLOCK_STARTED else "")

    def lost(self, why: str) -> None:
        """Show that the source has become unreachable, or is reachable again."""
        message = connection_message(why)
        if self._live:
            self._progress.doing(message if why else "")
        else:
            say(f"fstune: {message}", err=True)
        if not why:
            # Once reachable, the source reports again whether the campaign makes progress.
            self._missed = False

    def missed(self, absence: Absence | None) -> None:
        """Show that nobody runs a campaign that should be running, or that somebody does again."""
        message = ""
        if absence is not None:
            message = clean(absence.sentence(self._source.options))
        if self._live and (message or self._missed):
            self._progress.doing(message)
        elif not self._live and bool(message) is not self._missed:
            say(f"fstune: {message or 'its process is active again'}", err=True)
        self._missed = bool(message)

    def look(self) -> None:
        """Show the campaign's standing; skipped if it cannot be read at the moment."""
        if not self._live:
            return
        self._last_look = time.monotonic()
        try:
            blocks = self._source.blocks()
            if blocks is None:
                return
            last = blocks.last
            standing = outside_standing(
                self._source.trials(),
                last,
                self._source.estimates(last.kind),
                incumbent=self._incumbent,
                measurements=blocks.measurements,
                elapsed_s=max(0.0, (datetime.now(UTC) - self._began).total_seconds()),
                blocks=blocks.complete,
            )
        except TunerError:
            return
        self._progress.standing(standing)


def watched(source: Source, after: int, log: LogForm | None, *, quiet: bool = False) -> None:
    """Show a campaign's events with numbers above ``after`` until it stops.

    Then print its end and exit with its status. Ctrl-C only stops watching.
    """
    campaign = source.campaign()
    console = output()
    progress: Progress = (
        progress_for(console, title=f"{campaign.name} · {campaign.id}", quiet=quiet)
        if log is None
        else LogProgress(sys.stderr, log, campaign.id)
    )
    live = log is None and not quiet and console.is_terminal and not console.is_dumb_terminal
    try:
        with progress:
            teller = _Teller(source, progress, live=live)
            earlier = source.earlier(after) if live else []
            for event in earlier:
                teller.note(event)
            teller.look()
            if not _has_stopped(source, earlier):
                _follow(source, earlier[-1].number if earlier else after, teller)
            teller.look()
            end = source.end()
    except KeyboardInterrupt:
        what = f"{campaign.id}{source.options}"
        say(
            f"fstune: campaign {campaign.id} continues; to watch it again: fstune watch {what}; to "
            f"pause it: fstune pause {what}",
            err=True,
        )
        raise typer.Exit(INTERRUPTED) from None
    tell_end(end, teller.restored, _error(end.campaign, teller.last), source.options)


def connection_message(why: str) -> str:
    """What to show when a source is unreachable, and ``why``, or with "" reachable again."""
    return f"{clean(why)}; trying again" if why else "connected again"


def _has_stopped(source: Source, events: Sequence[Event]) -> bool:
    """Whether the run to which these newest events belong has stopped and is not resumed."""
    stops = [event for event in events if event.kind in _STOPS]
    # Outside the hours of its testbeds, a campaign waits for the next run.
    if not stops or "until" in stops[-1].data or events[-1].kind == EventKind.RESUME_REQUESTED:
        return False
    return source.campaign().state in _STOPPED


def _follow(source: Source, after: int, teller: _Teller) -> None:
    """Forward all events until the campaign is over or its run has stopped and is not resumed."""
    while True:
        stopped = False
        for event in source.follow(after, teller.lost, teller.missed):
            after = event.number
            teller.say(event)
            # Outside the hours of its testbeds, a campaign waits for the next run.
            is_stop = event.kind in _STOPS and "until" not in event.data
            stopped = is_stop and source.campaign().state in _STOPPED
            if stopped:
                break
        if not stopped:
            return
        rest: Sequence[Event] = source.events(after)
        for event in rest:
            after = event.number
            teller.say(event)
        is_resumed = bool(rest) and rest[-1].kind == EventKind.RESUME_REQUESTED
        if not is_resumed and source.campaign().state in _STOPPED:
            return


def _error(campaign: Campaign, last: Event | None) -> TunerError | None:
    """Return the error that the run itself would have raised, if any."""
    if last is not None and last.kind == EventKind.START_FAILED:
        return ConflictError(last.message)
    slug = "" if last is None else str(last.data.get("failure", ""))
    # A paused campaign stays paused if its resume is refused.
    is_refused = bool(slug) and last is not None and last.kind == EventKind.PAUSED
    if campaign.state is not CampaignState.FAILED and not is_refused:
        return None
    # It defines further kinds of errors, and nothing else here has imported it.
    from tuner.hosts import connector  # noqa: F401

    return of_kind(slug, campaign.reason) or TunerError(campaign.reason)
