"""Who runs which campaign where: what is known of it as records, and as lists and sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from rich.console import RenderableType
from rich.text import Text

from tuner.model import Wish
from tuner.report.drawing import Printable
from tuner.report.tables import Column, Listing
from tuner.report.words import NAME, QUIET, SLOWER, duration, literal, moment
from tuner.states import OVER, CampaignState


class Presence(StrEnum):
    """What is known of a process: it gives signs of life, gives none any more, or has ended."""

    ALIVE = "alive"
    SILENT = "silent"
    DIED = "died"


@dataclass(frozen=True, slots=True)
class RunningCampaign:
    """A campaign that runs by its state, or for which a process holds a testbed: once for each.

    ``host``, ``pid``, ``since``: the process, and when it took the testbed; where none holds any,
    nothing. ``heard_s``: since its last sign of life, else since the campaign's last event; after
    ``limit_s`` another process may take over. ``queued``: it is a worker's to take up. ``wish``:
    what was asked of it, from ``asked_by``, and is not done yet.
    """

    campaign: str
    name: str
    state: CampaignState
    presence: Presence
    heard_s: float
    testbed: str = ""
    host: str = ""
    pid: int | None = None
    since: datetime | None = None
    limit_s: float | None = None
    queued: bool = False
    wish: Wish | None = None
    asked_by: str = ""


@dataclass(frozen=True, slots=True)
class WaitingCampaign:
    """A campaign that waits for a worker. ``testbeds``: their names; none when it has its own.

    ``taken_from``: whether any worker takes campaigns from its ``queue``.
    """

    campaign: str
    name: str
    queue: str
    testbeds: tuple[str, ...]
    taken_from: bool


@dataclass(frozen=True, slots=True)
class KnownWorker:
    """A worker. ``queues``: what it takes campaigns from, ``concurrency`` at once at most; the
    other words are those of a running campaign.
    """

    id: int
    host: str
    pid: int
    queues: tuple[str, ...]
    concurrency: int
    campaigns: tuple[str, ...]
    since: datetime
    presence: Presence
    heard_s: float


@dataclass(frozen=True, slots=True)
class Status:
    """What runs, by testbed, and then what should but does not; what waits for workers, in the
    order in which it is taken; and the workers.
    """

    running: tuple[RunningCampaign, ...] = ()
    waiting: tuple[WaitingCampaign, ...] = ()
    workers: tuple[KnownWorker, ...] = ()

    def stalled(self) -> dict[str, str]:
        """Why campaigns do not go on, though they run by their state, and what to do, in a few
        words, by identifier.
        """
        every = (self.absence(campaign) for campaign in {run.campaign for run in self.running})
        return {each.campaign: each.brief() for each in every if each is not None}

    def absence(self, campaign: str) -> Absence | None:
        """Why a campaign does not go on, though it runs by its state; None when nothing is amiss.

        ``campaign``: its whole identifier. One process runs it, whatever testbeds it has.
        """
        runs = [run for run in self.running if run.campaign == campaign]
        if not runs or any(run.presence is Presence.ALIVE for run in runs):
            return None
        last = min(runs, key=lambda run: run.heard_s)
        if last.state is not CampaignState.RUNNING:
            return None
        heard, who = _about(last.heard_s), f"its process ({last.pid} on {last.host})"
        if last.pid is None:
            said = f"no process runs it any more; it was last heard from {heard} ago"
        elif last.presence is Presence.DIED:
            said = f"{who} has died; it was last heard from {heard} ago"
        else:
            said = f"{who} has not been heard from for {heard}"
        return Absence(campaign, said, last.queued)


@dataclass(frozen=True, slots=True)
class Absence:
    """A campaign that runs by its state, and in no process that is heard from.

    ``said``: the clause that tells so. ``queued``: a worker takes it up by itself.
    """

    campaign: str
    said: str
    queued: bool

    def advice(self, options: str = "") -> str:
        """What to do, a clause; ``options``: those that lead a command to the campaign."""
        if self.queued:
            return f"a worker resumes it, see fstune status{options}"
        return f"to resume it: fstune resume {self.campaign}{options}"

    def brief(self) -> str:
        """Why, and what to do, as short as a list needs it."""
        return "waits for a worker" if self.queued else "its process is gone; resume it"

    def sentence(self, options: str = "") -> str:
        """Both in one line."""
        return f"{self.said}; {self.advice(options)}"


def _about(seconds: float) -> str:
    """A time that does not change with every look at it."""
    if seconds < 60.0:
        return "less than a minute"
    minutes = int(seconds / 60.0)
    return f"{minutes} min" if minutes < 60 else duration(60.0 * minutes)


_COLUMNS = (
    Column("Campaign", rigid=True),
    Column("Name"),
    Column("Testbed"),
    Column("Process"),
    Column("Since", rigid=True),
    Column("Last seen", rigid=True, right=True),
    Column("State"),
)


def status_pages(status: Status) -> list[RenderableType]:
    """The lists that there is something to say in: what runs, what waits, the workers."""
    pages = [_running_table(status.running)]
    if status.waiting:
        pages.append(_waiting_table(status.waiting))
    if status.workers:
        pages.append(_workers_table(status.workers))
    return pages


def _running_table(running: Sequence[RunningCampaign]) -> RenderableType:
    rows = [
        (
            literal(run.campaign, NAME),
            literal(run.name),
            literal(run.testbed),
            literal("" if run.pid is None else f"{run.pid} on {run.host}"),
            Text("" if run.since is None else moment(run.since), style=QUIET),
            Text(f"{duration(run.heard_s)} ago"),
            _state(run),
        )
        for run in running
    ]
    return Printable(Listing(_COLUMNS, tuple(rows))) if rows else Text("No campaign runs.")


def _waiting_table(waiting: Sequence[WaitingCampaign]) -> RenderableType:
    rows = [
        (
            literal(run.campaign, NAME),
            literal(run.name),
            literal(", ".join(run.testbeds)),
            literal(run.queue)
            if run.taken_from
            else literal(f"{run.queue}: no worker takes from it", SLOWER),
        )
        for run in waiting
    ]
    columns = (_COLUMNS[0], _COLUMNS[1], _COLUMNS[2], Column("Waits in queue"))
    return Printable(Listing(columns, tuple(rows)))


def _workers_table(workers: Sequence[KnownWorker]) -> RenderableType:
    rows = [
        (
            Text(str(worker.id), style=NAME),
            literal(f"{worker.pid} on {worker.host}"),
            literal(", ".join(worker.queues)),
            Text(moment(worker.since), style=QUIET),
            Text(f"{duration(worker.heard_s)} ago"),
            _work(worker),
        )
        for worker in workers
    ]
    columns = (
        Column("Worker", rigid=True),
        Column("Process"),
        Column("Takes from"),
        Column("Since", rigid=True),
        Column("Last seen", rigid=True, right=True),
        Column("Campaigns"),
    )
    return Printable(Listing(columns, tuple(rows)))


def _work(worker: KnownWorker) -> Text:
    if worker.presence is not Presence.ALIVE:
        return Text("died; another worker takes over", style=SLOWER)
    ids = " ".join(worker.campaigns)
    return literal(f"{len(worker.campaigns)} of {worker.concurrency}{': ' if ids else ''}{ids}")


def _state(run: RunningCampaign) -> Text:
    if run.presence is Presence.DIED:
        if run.state in OVER:
            return Text(f"died; the campaign is {run.state}", style=SLOWER)
        todo = "a worker resumes it" if run.queued else "resume it with 'fstune resume'"
        return Text(f"died; {todo}", style=SLOWER)
    if run.presence is Presence.SILENT:
        limit = duration(run.limit_s or 0.0)
        return Text(f"silent for more than {limit}; may be taken over", SLOWER)
    if run.wish is not None:
        return literal(f"will {run.wish}, asked from {run.asked_by}")
    return Text("runs")
