"""Records of the running campaigns, their processes and the workers."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from tuner.model import Wish
from tuner.states import CampaignState
from tuner.text import duration


class Presence(StrEnum):
    """What is known about a process: it sends heartbeats, no longer sends any, or has ended."""

    ALIVE = "alive"
    SILENT = "silent"
    DIED = "died"


@dataclass(frozen=True, slots=True)
class RunningCampaign:
    """A campaign whose state is running, or for which a process holds a testbed; one entry for each
    testbed.

    ``host``, ``pid``, ``since``: the process, and when it took the testbed; empty if no process
    holds one. ``heard_s``: seconds since its last heartbeat, or since the campaign's last event
    without a process; after ``limit_s`` another process may take over. ``queued``: a worker will
    resume it. ``wish``: a pending request to it, from ``asked_by``. ``verifies``: it is a
    verification, which cannot be resumed. ``application``: the identifier of its application that
    is, or was, in progress there, or "".
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
    verifies: bool = False
    application: str = ""


@dataclass(frozen=True, slots=True)
class WaitingCampaign:
    """A campaign that waits for a worker. ``testbeds``: their names; empty if it has its own.

    ``taken_from``: whether any worker takes campaigns from its ``queue``; ``not_before``: none
    takes it before this time.
    """

    campaign: str
    name: str
    queue: str
    testbeds: tuple[str, ...]
    taken_from: bool
    not_before: datetime | None = None


@dataclass(frozen=True, slots=True)
class ClosedCampaign:
    """A campaign outside the hours of its testbeds, which a process continues at ``until``.

    ``host``, ``pid``: the process; ``presence``: alive unless it is known to have ended.
    """

    campaign: str
    name: str
    until: datetime
    host: str
    pid: int
    presence: Presence


@dataclass(frozen=True, slots=True)
class KnownWorker:
    """A worker. ``queues``: where it takes campaigns from; ``concurrency``: the maximum number at
    once. The other fields are as in a running campaign.
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
    """The running campaigns, by testbed, followed by those that should run but do not; the
    campaigns that wait for workers, in the order in which they will be taken; the workers; and the
    ``closed`` campaigns that processes wait to continue.
    """

    running: tuple[RunningCampaign, ...] = ()
    waiting: tuple[WaitingCampaign, ...] = ()
    workers: tuple[KnownWorker, ...] = ()
    closed: tuple[ClosedCampaign, ...] = ()

    def stalled(self) -> dict[str, str]:
        """Return, by identifier, why campaigns whose state is running make no progress, and what to
        do, in a few words.
        """
        every = (self.absence(campaign) for campaign in {run.campaign for run in self.running})
        return {each.campaign: each.brief() for each in every if each is not None}

    def absence(self, campaign: str) -> Absence | None:
        """Return why a campaign whose state is running makes no progress; None if it does.

        ``campaign``: its full identifier. One process runs it, however many testbeds it uses.
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
        return Absence(campaign, sentence, last.queued, last.verifies)


@dataclass(frozen=True, slots=True)
class Absence:
    """A campaign whose state is running, but without a live process.

    ``reason``: a clause that states the reason. ``queued``: a worker resumes it automatically.
    ``verifies``: it is a verification, which cannot be resumed.
    """

    campaign: str
    reason: str
    queued: bool
    verifies: bool = False

    @property
    def can_be_resumed(self) -> bool:
        """Whether a user may resume it."""
        return not self.queued and not self.verifies

    def advice(self, options: str = "") -> str:
        """Return a clause that says what to do; ``options``: options that select the campaign."""
        if self.queued:
            return f"a worker resumes it, see fstune status{options}"
        if self.verifies:
            return f"to end this verification: fstune cancel {self.campaign}{options}"
        return f"to resume it: fstune resume {self.campaign}{options}"

    def brief(self) -> str:
        """Return reason and advice, short enough for a list."""
        if self.queued:
            return "waits for a worker"
        return f"its process is gone; {'cancel' if self.verifies else 'resume'} it"

    def sentence(self, options: str = "") -> str:
        """Return reason and advice in one line."""
        return f"{self.reason}; {self.advice(options)}"


def _about(seconds: float) -> str:
    """Format a time coarsely, so that it does not change at every refresh."""
    if seconds < 60.0:
        return "less than a minute"
    minutes = int(seconds / 60.0)
    return f"{minutes} min" if minutes < 60 else duration(60.0 * minutes)
