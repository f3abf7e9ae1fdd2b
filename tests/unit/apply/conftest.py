"""A store whose campaigns on simulated testbeds have recommendations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.recommending import recommending
from tests.unit.campaign.campaigns import THREADS, spec
from tuner.applications import Application
from tuner.apply.actor import Actor
from tuner.apply.applying import carry_out, make_plan
from tuner.apply.destination import Destination
from tuner.model import Campaign, Value
from tuner.services.simulated import SimulatedTestbed
from tuner.store import Store

ORIGINAL: dict[str, Value] = {THREADS: 64, "cache_manager.daemons": 3}
CANDIDATE: dict[str, Value] = {
    THREADS: 200,
    "fileserver.dir_buffers": 300,
    "cache_manager.daemons": 3,
}


@dataclass
class Desk:
    """A store and what a person needs to apply recommendations from it."""

    store: Store
    directory: Path
    messages: list[str] = field(default_factory=list)

    @property
    def actor(self) -> Actor:
        return Actor(self.store, self.directory, "alice", self.messages.append)

    def campaign(
        self,
        *effects: dict[str, object],
        candidate: Mapping[str, Value] = CANDIDATE,
        name: str | None = None,
    ) -> Campaign:
        """Create a campaign. ``name``: of its testbed, to share it with other campaigns."""
        campaign_spec = spec(*effects, found=ORIGINAL)
        if name is not None:
            world = {"simulated": {"name": name, "found": dict(ORIGINAL)}}
            campaign_spec = spec(testbed=world)
        return recommending(self.store, campaign_spec, ORIGINAL, candidate)

    def destination(self, campaign: Campaign) -> Destination:
        return Destination.of(campaign, self.directory, measures=True)

    def plan(self, campaign: Campaign, *, stepwise: bool = False) -> Application:
        planned = make_plan(self.actor, campaign, self.destination(campaign), stepwise=stepwise)[1]
        assert planned is not None
        return planned

    def apply(self, campaign: Campaign, *, stepwise: bool = False) -> Application:
        return carry_out(self.actor, self.plan(campaign, stepwise=stepwise))

    def in_force(self, campaign: Campaign) -> dict[str, Value]:
        """The settings that a new run finds in effect on the testbed."""
        testbed = self.destination(campaign).lasting()
        assert isinstance(testbed, SimulatedTestbed)
        testbed.open(self.destination(campaign).needs.workload, lambda message: None)
        return testbed.settings.as_dict()

    def events(self, campaign: Campaign) -> list[str]:
        return [event.kind for event in self.store.events(campaign.id)]


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with Store.open(tmp_path) as store:
        yield Desk(store, tmp_path)
