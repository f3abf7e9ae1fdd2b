"""A finished campaign on a simulated testbed, and its report."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.api.conftest import CAMPAIGN, fstune
from tuner.page.document import ReportDocument
from tuner.page.report_builder import report_document
from tuner.page.snapshot import Sight
from tuner.store import Store


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a state directory with one campaign, which found an improvement."""
    directory = tmp_path_factory.mktemp("finished")
    file = directory / "campaign.yaml"
    file.write_text(CAMPAIGN)
    fstune(directory, "run", str(file))
    return directory


@pytest.fixture(scope="session")
def store(finished: Path) -> Iterator[Store]:
    with Store.open(finished) as store:
        yield store


@pytest.fixture(scope="session")
def document(store: Store) -> ReportDocument:
    """Return the report of that campaign."""
    return report_document(Sight(store), store.campaign("last").id)
