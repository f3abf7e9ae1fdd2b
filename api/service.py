"""Shared dependencies of the routes: the running service and the campaign named in the path."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Annotated

from fastapi import Depends, Path, Request

from api.exports import Exports
from api.starting import Starter
from api.watching import Feeds
from tuner.model import Campaign
from tuner.page.effects_cache import EffectsCache
from tuner.page.snapshot import SnapshotCache
from tuner.run.steering import refuse_last
from tuner.settings import ServiceSettings
from tuner.store import Store
from tuner.store.access import Access
from tuner.store.pages import Pages


@dataclass(frozen=True, slots=True)
class Service:
    """Objects with the lifetime of the application."""

    directory: FilePath
    database: str | None
    settings: ServiceSettings
    store: Store
    pages: Pages
    access: Access
    snapshots: SnapshotCache
    effects: EffectsCache
    feeds: Feeds
    exports: Exports
    starter: Starter


def service(request: Request) -> Service:
    """The service handling a request."""
    running = request.app.state.service
    assert isinstance(running, Service)
    return running


Serving = Annotated[Service, Depends(service)]


CampaignName = Annotated[
    str,
    Path(
        pattern=r"^[\w .-]{1,80}$",
        description="A campaign's identifier, the beginning of one, its name if it is the only one "
        "of that name, or `last`.",
    ),
]


def find_campaign(campaign: CampaignName, serving: Serving) -> Campaign:
    """Look up the campaign named in the path."""
    return serving.store.campaign(campaign)


def find_named_campaign(campaign: CampaignName, serving: Serving) -> Campaign:
    """Look up the campaign named in the path, for what cannot be undone.

    Raises SpecError for `last`, which may be another campaign than the client means.
    """
    refuse_last(campaign, serving.store.campaign)
    return serving.store.campaign(campaign)


PathCampaign = Annotated[Campaign, Depends(find_campaign)]
NamedPathCampaign = Annotated[Campaign, Depends(find_named_campaign)]
