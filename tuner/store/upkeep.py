"""Maintenance of a database as a whole: backups, upgrades and consistency checks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tuner.errors import StoreError
from tuner.model import Block, Campaign, Holder
from tuner.states import BlockState, CampaignState, EventKind, TrialState
from tuner.store import queue_tables, schema, tables
from tuner.store.database import Database
from tuner.store.opening import open_database
from tuner.store.pages import Pages
from tuner.store.sqlite import SQLite
from tuner.store.store import Store


@dataclass(frozen=True, slots=True)
class Upgraded:
    """An upgrade of the database ``where``: the revision ``before`` (None: it was empty) and
    ``after`` it, and the file with a ``copy`` of the database before the upgrade, if one was made.
    ``queue``: whether the queue of the workers was created or changed.
    """

    where: str
    before: str | None
    after: str
    copy: Path | None
    queue: bool = False


def upgrade(
    state_directory: Path,
    database: str | None = None,
    is_gone: Callable[[Holder], bool] = lambda holder: False,
) -> Upgraded:
    """Upgrade a database, specified as for ``Store.open``. Raises StoreError, and ConflictError
    while a campaign is running; see ``schema.upgrade``.
    """
    with _opening(state_directory, database) as source:
        before, copy = schema.upgrade(source, is_gone)
        queue = not isinstance(source, SQLite) and queue_tables.upgrade(source)
        return Upgraded(source.where, before, tables.REVISION, copy, queue)


def backup(state_directory: Path, file: Path, database: str | None = None) -> str:
    """Copy a database of any revision to a new file; return its name in messages. StoreError."""
    with _opening(state_directory, database) as source:
        if not source.read(schema.has_tables):
            raise StoreError(f"{source.where} is empty; there is nothing to copy")
        source.backup(file)
        return source.where


@contextmanager
def _opening(state_directory: Path, address: str | None) -> Iterator[Database]:
    database = open_database(state_directory, address)
    try:
        yield database
    finally:
        database.close()


def problems(store: Store) -> list[str]:
    """Return the defects of a database, a sentence for each; empty when it is sound."""
    sentences = store.damage()
    if sentences:
        return sentences  # contradictions in campaigns would only follow from these
    for campaign in store.campaigns():
        sentences += [
            f"campaign {campaign.id}: {what}" for what in _contradictions(store, campaign)
        ]
    return sentences


def _contradictions(store: Store, campaign: Campaign) -> Iterator[str]:
    failed = {t.number for t in store.trials(campaign.id) if t.state is TrialState.FAILED}
    events = store.events(campaign.id)
    left_out = [event.data for event in events if event.kind == EventKind.LEFT_OUT]
    numbers = [event.number for event in events]
    if numbers != list(range(1, len(numbers) + 1)):
        yield "its events are not numbered from 1 without gaps"
    if campaign.state is CampaignState.FINISHED and campaign.recommendation is None:
        yield "it is finished but has no answer"
    for block in Pages(store).whole_blocks(campaign.id):
        # Earlier versions imported events without checking their data.
        here = [one for one in left_out if one.get("block") == block.number]
        missing = failed | {one.get("trial") for one in here}
        yield from (f"block {block.number} {what}" for what in _of_block(block, campaign, missing))


def _of_block(block: Block, campaign: Campaign, missing: Set[object]) -> Iterator[str]:
    """The defects of a block. ``missing``: trials that need no measurement in it."""
    trials = {measurement.trial for measurement in block.measurements}
    if block.state is BlockState.RUNNING and campaign.state is not CampaignState.RUNNING:
        yield f"is running, but the campaign is {campaign.state}"
    if len(set(block.order)) != len(block.order):
        yield "has an arm twice"
    if not trials <= set(block.order):
        yield "has a measurement without an arm"
    if block.state is BlockState.COMPLETE and not set(block.order) - trials <= missing:
        yield "is complete but lacks the measurement of an arm"
    for measurement in block.measurements:
        if not measurement.components:
            yield f"has a measurement of trial {measurement.trial} without any component"
