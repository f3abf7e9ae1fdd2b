"""Backups of a database, and detection of defects."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import Engine, text
from sqlalchemy.exc import OperationalError

from tests.unit.store import records
from tests.unit.store.conftest import Place
from tuner.errors import ConflictError, StoreError
from tuner.states import BlockState, TrialState
from tuner.store import NewEvent, Store, backup, problems
from tuner.store.opening import FILE, open_database
from tuner.store.pages import Pages


@pytest.fixture
def campaign(store: Store) -> str:
    """Return a campaign with a complete block, in which trial 2 did not start, and a void one."""
    new = records.new_campaign(store, trials=3)
    for number, state in ((1, BlockState.COMPLETE), (2, BlockState.VOID)):
        store.begin_block(new, records.block(number, 1, 0, 2), records.event())
        for position, trial in enumerate((1, 0)):
            store.add_measurement(
                new, number, records.measurement(trial, position), records.event()
            )
        store.end_block(new, number, state, "", 1.0, records.event())
    store.move_trial(new, 2, TrialState.FAILED, "it does not start", records.event())
    return new


def test_a_sound_database(store: Store, campaign: str) -> None:
    assert problems(store) == []


def test_an_event_without_its_data_does_not_end_the_check(store: Store, campaign: str) -> None:
    """As earlier releases imported it."""
    store.add_event(campaign, NewEvent(records.NOON, "left-out", "left out", {}))
    assert problems(store) == []


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ("DELETE FROM event WHERE number = 3", "its events are not numbered from 1 without gaps"),
        ("UPDATE campaign SET state = 'finished'", "it is finished but has no answer"),
        ("UPDATE block SET state = 'running' WHERE number = 2", "block 2 is running, but the camp"),
        ("UPDATE trial SET state = 'running'", "block 1 is complete but lacks the measurement"),
        ("""UPDATE block SET "order" = '[0, 1, 1]'""", "block 1 has an arm twice"),
        ("""UPDATE block SET "order" = '[0, 2]'""", "block 1 has a measurement without an arm"),
        ("DELETE FROM component WHERE trial = 1", "a measurement of trial 1 without any component"),
    ],
)
def test_contradictions_are_found(
    store: Store, campaign: str, place: Place, change: str, problem: str
) -> None:
    with place.raw() as connection:
        connection.execute(text(change))
        connection.commit()
    sentences = problems(store)
    assert sentences
    assert sentences[0].startswith(f"campaign {campaign}: ")
    assert problem in sentences[0]


def test_blocks_are_read_in_pieces(
    store: Store, campaign: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tuner.store.pages._BLOCKS_AT_ONCE", 1)
    assert list(Pages(store).whole_blocks(campaign)) == store.blocks(campaign)
    assert list(Pages(store).whole_blocks(campaign, {0})) == store.blocks(campaign, trials={0})


def test_a_block_that_continued_without_a_trial_is_sound(
    store: Store, campaign: str, place: Place
) -> None:
    with place.raw() as connection:
        connection.execute(text("UPDATE trial SET state = 'running'"))
        connection.commit()
    assert problems(store)
    for block in store.blocks(campaign):
        for trial in {*block.order} - {one.trial for one in block.measurements}:
            data = {"block": block.number, "trial": trial}
            store.add_event(campaign, NewEvent(records.NOON, "left-out", "without it", data))
    assert problems(store) == []


def test_a_dangling_reference_is_found(state_directory: Path) -> None:
    with Store.open(state_directory) as store:
        records.new_campaign(store)
        with closing(sqlite3.connect(state_directory / FILE)) as raw:
            raw.execute("UPDATE trial SET campaign = 'none' WHERE number = 1")
            raw.commit()
        assert problems(store) == ["row 2 of trial refers to a missing row of campaign"]


@pytest.mark.slow
def test_damage_is_found(state_directory: Path) -> None:
    with Store.open(state_directory) as store:
        records.new_campaign(store, trials=200)
    file = state_directory / FILE
    with closing(sqlite3.connect(file)) as raw:
        (root,) = raw.execute("SELECT rootpage FROM sqlite_master WHERE name = 'event'").fetchone()
        (size,) = raw.execute("PRAGMA page_size").fetchone()
    content = bytearray(file.read_bytes())
    content[(root - 1) * size + 100 : root * size] = bytes(size - 100)
    file.write_bytes(content)
    with Store.open(state_directory) as store:
        try:
            sentences = problems(store)
        except StoreError as error:
            sentences = [str(error)]
    assert sentences
    assert "damaged" in sentences[0]


def test_a_backup_is_a_store_at_that_moment(state_directory: Path, tmp_path: Path) -> None:
    with Store.open(state_directory) as store:
        campaign = records.new_campaign(store)
        before = store.events(campaign)
        (tmp_path / "other").mkdir()
        copy = tmp_path / "other" / FILE
        assert backup(state_directory, copy) == str(state_directory / FILE)
        store.add_event(campaign, records.event())
    assert copy.stat().st_mode & 0o077 == 0
    with Store.open(copy.parent) as copied:
        assert copied.events(campaign) == before
        assert problems(copied) == []


def test_a_backup_replaces_no_file(state_directory: Path, tmp_path: Path) -> None:
    Store.open(state_directory).close()
    (tmp_path / "copy").write_text("mine")
    with pytest.raises(ConflictError, match="copy exists; name a new file"):
        backup(state_directory, tmp_path / "copy")
    assert (tmp_path / "copy").read_text() == "mine"
    with pytest.raises(StoreError, match="missing/copy cannot be created: No such file"):
        backup(state_directory, tmp_path / "missing" / "copy")


def test_an_empty_database_is_not_backed_up(state_directory: Path, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="is empty; there is nothing to copy"):
        backup(state_directory, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_a_backup_that_fails_leaves_no_file(
    state_directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(engine: Engine) -> None:
        raise OperationalError("connect", None, sqlite3.OperationalError("disk I/O error"))

    Store.open(state_directory).close()
    database = open_database(state_directory)
    try:
        monkeypatch.setattr(Engine, "connect", fail)
        with pytest.raises(StoreError, match="disk I/O error"):
            database.backup(tmp_path / "copy")
    finally:
        database.close()
    assert not (tmp_path / "copy").exists()
