"""A finished campaign on a simulated testbed, and its report."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.api.conftest import measured
from tuner.page.document import ReportDocument
from tuner.page.report_builder import report_document
from tuner.page.snapshot import SnapshotCache
from tuner.store import Store

__all__ = ["measured"]


@pytest.fixture(scope="session")
def store(measured: Path) -> Iterator[Store]:
    with Store.open(measured) as store:
        yield store


@pytest.fixture(scope="session")
def document(store: Store) -> ReportDocument:
    """Return the report of that campaign."""
    return report_document(SnapshotCache(store), store.campaign("last").id)
