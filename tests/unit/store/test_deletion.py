"""A deleted campaign leaves no rows behind, and no rows of others are deleted."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from sqlalchemy import Connection, func, select

from tests.unit.store.test_archive import filled
from tuner.errors import ConflictError, NotFoundError
from tuner.states import CampaignState
from tuner.store import NewEvent, Store, tables
from tuner.store.archive import TABLES
from tuner.store.deletion import delete_campaign

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def rows(store: Store) -> dict[str, int]:
    def count(connection: Connection) -> dict[str, int]:
        return {
            table.name: connection.execute(select(func.count()).select_from(table)).scalar_one()
            for table in TABLES
        }

    return store._database.read(count)


def test_a_deleted_campaign_leaves_nothing_and_affects_no_other(store: Store) -> None:
    campaign = filled(store)
    before = rows(store)
    assert min(before.values()) > 0
    other = filled(store)
    assert rows(store) != before
    with pytest.raises(ConflictError, match="end it first"):
        delete_campaign(store, other)
    store.move_campaign(other, CampaignState.PAUSED, "", NewEvent(NOW, "paused", "paused"))
    delete_campaign(store, other)
    assert rows(store) == before
    assert store.campaign(campaign).id == campaign
    with pytest.raises(NotFoundError):
        delete_campaign(store, other)


def test_each_reference_is_checked_through_an_index() -> None:
    """Otherwise, deleting each row reads all of another table: a long campaign takes minutes."""
    small = {"lease", "posted", "token"}
    unindexed = []
    for table in tables.metadata.sorted_tables:
        keys = [table.primary_key.columns, *(index.columns for index in table.indexes)]
        indexed = [[column.name for column in key] for key in keys]
        for reference in table.foreign_key_constraints:
            columns = set(reference.column_keys)
            if not any(set(names[: len(columns)]) <= columns for names in indexed):
                unindexed.append((table.name, columns))
    assert [one for one in unindexed if one[0] not in small] == []
