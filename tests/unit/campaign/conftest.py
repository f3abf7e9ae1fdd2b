"""Stored campaigns for tests to run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.unit.campaign.campaigns import Campaign
from tuner.campaign.spec import CampaignSpec
from tuner.store import Store

Begin = Callable[[CampaignSpec], Campaign]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "state") as opened:
        yield opened


@pytest.fixture
def begin(store: Store, tmp_path: Path) -> Begin:
    """Return what stores a new campaign."""
    return lambda spec: Campaign(store, spec, tmp_path / "state")
