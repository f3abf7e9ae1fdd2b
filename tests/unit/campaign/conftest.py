"""Stored campaigns for tests to run."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.postgresql import Server
from tests.unit.campaign.campaigns import Campaign, faster, spec
from tests.unit.campaign.outcomes import Place
from tuner.spec.campaign import CampaignSpec
from tuner.states import CampaignState
from tuner.store import Store

Begin = Callable[[CampaignSpec], Campaign]


#: Marks a test that runs with every kind of database; other tests use SQLite.
ON_BOTH = pytest.mark.parametrize(
    "store_place", ["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)], indirect=True
)


@pytest.fixture
def store_place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """Return where the campaigns of a test are stored."""
    state = tmp_path / "state"
    if getattr(request, "param", "sqlite") == "sqlite":
        return Place(state)
    server: Server = request.getfixturevalue("postgresql")
    name: str = request.getfixturevalue("reused")
    server.execute("TRUNCATE campaign, mark CASCADE", name)
    return Place(state, server.url(name))


@pytest.fixture
def store(store_place: Place) -> Iterator[Store]:
    with store_place.open() as store:
        yield store


@pytest.fixture
def begin(store: Store, tmp_path: Path) -> Begin:
    """Return a function that stores a new campaign."""
    return lambda spec: Campaign(store, spec, tmp_path / "state")


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> Campaign:
    """Return a finished campaign for tests to copy, because running one takes a second."""
    state = tmp_path_factory.mktemp("once") / "state"
    with Store.open(state) as store:
        campaign = Campaign(store, spec(faster()), state)
        assert campaign.run().campaign.state is CampaignState.FINISHED
    return campaign


@pytest.fixture
def copied(once: Campaign, tmp_path: Path) -> str:
    """Let the store of a test begin with a copy of that campaign. Request it before ``store``."""
    shutil.copytree(once.directory, tmp_path / "state")
    return once.id


@pytest.fixture
def finished(copied: str, once: Campaign, store: Store, tmp_path: Path) -> Campaign:
    """Return a finished campaign with a certificate."""
    return Campaign(store, once.spec, tmp_path / "state", copied)
