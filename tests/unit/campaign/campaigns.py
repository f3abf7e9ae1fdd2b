"""Complete campaigns on the simulated testbed, with a real store."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tuner.compose import Prepared, prepare
from tuner.model import Block, Event, Trial
from tuner.records.standing import Standing
from tuner.run.holding import LeaseKeeper
from tuner.run.lanes import CampaignTestbed
from tuner.run.runner import Runner, RunOutcome
from tuner.services.simulated import SimulatedTestbed
from tuner.spec.campaign import CampaignSpec
from tuner.store import Store

THREADS = "fileserver.threads"
#: Two first configurations, distinguished by their threads.
FAST, OTHER = {THREADS: 200}, {THREADS: 20}
#: Keeps a campaign short: with one more trial some go on for 100 more measurements.
SHORT_SEARCH = {"arms": 3, "blocks_per_trial": 3, "max_trials": 2}
#: Sections of a campaign that ends at its first certificate, for tests that need no more of it.
SHORT: Mapping[str, Any] = {"search": SHORT_SEARCH, "stop": "certified"}


def spec(
    *effects: dict[str, object],
    first: Sequence[Mapping[str, object]] = (FAST, OTHER),
    noise: float = 0.004,
    **sections: object,
) -> CampaignSpec:
    """A small campaign: by default, the first configurations and one more.

    ``found``, if given, goes to the simulated testbed; other sections replace those of the file.
    """
    original = sections.pop("found", None) or {}
    document: dict[str, object] = {
        "name": "small",
        "testbed": {
            "simulated": {"noise": noise, "effects": list(effects), "found": original},
        },
        "spaces": {
            "fileserver": {"name": "openafs-fileserver-1.8", "only": ["threads", "dir_buffers"]},
            "cache_manager": {"name": "openafs-cache-manager-fuse-1.8", "only": ["daemons"]},
        },
        "workload": "mixed-use",
        "pilot": {"blocks": 0},
        "search": {"arms": 3, "blocks_per_trial": 3, "max_trials": 3},
        "budget": {"wall_time": "15m"},
        "certification": {"blocks": 12},
        "first": list(first),
    }
    return CampaignSpec.model_validate(document | sections)


def faster(change: float = -0.15, low: int = 150) -> dict[str, object]:
    """Many threads make everything faster."""
    return {"parameter": THREADS, "low": low, "change": change}


def failing(how: str, low: int = 150) -> dict[str, object]:
    """Many threads make a configuration fail."""
    return {"parameter": THREADS, "low": low, "fails": how}


@dataclass
class Recorder:
    """An observer that records everything and calls ``each`` with the number of calls so far."""

    each: Callable[[int], None] = lambda count: None
    events: list[Event] = field(default_factory=list)
    standings: list[Standing] = field(default_factory=list)
    activities: list[str] = field(default_factory=list)
    calls: int = 0
    _counting: threading.Lock = field(default_factory=threading.Lock)

    def say(self, event: Event) -> None:
        self.events.append(event)
        self._called()

    def doing(self, what: str) -> None:
        self.activities.append(what)
        self._called()

    def standing(self, standing: Standing) -> None:
        self.standings.append(standing)
        self._called()

    def _called(self) -> None:
        with self._counting:  # called from the threads of several testbeds
            self.calls += 1
            count = self.calls
        self.each(count)


def sends(at: int, *numbers: signal.Signals) -> Recorder:
    """Return an observer that sends this process signals in its ``at``-th call."""

    def each(count: int) -> None:
        if count == at:
            for number in numbers:
                os.kill(os.getpid(), number)

    return Recorder(each)


@dataclass
class Campaign:
    """A stored campaign; ``run`` opens its testbed anew, as a new process would."""

    store: Store
    spec: CampaignSpec
    directory: Path
    id: str = ""
    testbed: SimulatedTestbed | None = None
    leases: LeaseKeeper | None = None
    testbeds: list[CampaignTestbed] | None = None

    def __post_init__(self) -> None:
        if not self.id:
            at = datetime.now(UTC)
            campaign = self.store.create_campaign("small", self.spec.to_json(), self.spec.seed, at)
            self.id = campaign.id

    def prepared(self) -> Prepared:
        specification = CampaignSpec.from_json(self.store.campaign(self.id).spec)
        return prepare(specification, self.directory)

    def run(self, observer: Recorder | None = None) -> RunOutcome:
        prepared = self.prepared()
        assert isinstance(prepared.testbed, SimulatedTestbed)
        self.testbed = prepared.testbed
        watching = observer or Recorder()
        runner = Runner(
            self.store,
            self.id,
            prepared.spec,
            prepared.workload,
            self.testbeds or prepared.campaign_testbeds(self.id),
            watching,
            aspects=prepared.aspects,
            leases=self.leases,
        )
        return runner.run()

    @property
    def trials(self) -> list[Trial]:
        return self.store.trials(self.id)

    @property
    def blocks(self) -> list[Block]:
        return self.store.blocks(self.id)

    def kinds(self) -> list[str]:
        return [event.kind for event in self.store.events(self.id)]
