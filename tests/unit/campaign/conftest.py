"""Stored campaigns for tests to run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.postgresql import Server
from tests.unit.campaign.campaigns import Campaign
from tests.unit.campaign.outcomes import Place
from tuner.campaign.spec import CampaignSpec
from tuner.store import Store

Begin = Callable[[CampaignSpec], Campaign]


#: Marks a test that is for each kind of database; others have SQLite.
ON_BOTH = pytest.mark.parametrize(
    "kept", ["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)], indirect=True
)


@pytest.fixture
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """Return where the campaigns of a test are kept."""
    state = tmp_path / "state"
    if getattr(request, "param", "sqlite") == "sqlite":
        return Place(state)
    server: Server = request.getfixturevalue("postgresql")
    name: str = request.getfixturevalue("reused")
    server.execute("TRUNCATE campaign, mark CASCADE", name)
    return Place(state, server.url(name))


@pytest.fixture
def store(kept: Place) -> Iterator[Store]:
    with kept.open() as opened:
        yield opened


@pytest.fixture
def begin(store: Store, tmp_path: Path) -> Begin:
    """Return what stores a new campaign."""
    return lambda spec: Campaign(store, spec, tmp_path / "state")
