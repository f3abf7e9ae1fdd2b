"""Who runs which campaign where, as far as it is known."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from tuner.model import Wish
from tuner.states import CampaignState
from tuner.text import duration


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
        """Why a campaign whose state is running does not go on; None when it does.

        ``campaign``: its whole identifier. One process runs it, whatever testbeds it has.
        """
        runs = [run for run in self.running if run.campaign == campaign]
        if not runs or any(run.presence is Presence.ALIVE for run in runs):
            return None
        last = min(runs, key=lambda run: run.heard_s)
        if last.state is not CampaignState.RUNNING:
            return None
        age, who = _about(last.heard_s), f"its process ({last.pid} on {last.host})"
        if last.pid is None:
            sentence = f"no process runs it any more; it was last heard from {age} ago"
        elif last.presence is Presence.DIED:
            sentence = f"{who} has died; it was last heard from {age} ago"
        else:
            sentence = f"{who} has not been heard from for {age}"
        return Absence(campaign, sentence, last.queued)


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
