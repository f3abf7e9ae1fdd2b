"""A database file that cannot be used is reported with its path and advice."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest
from sqlalchemy import event
from sqlalchemy.exc import OperationalError

from tests.unit.store import records
from tuner.errors import StoreError
from tuner.store import Store, database
from tuner.store.opening import FILE
from tuner.store.sqlite import SQLite, open_sqlite


@pytest.fixture
def path(state_directory: Path) -> Path:
    """Return the file of a store with a campaign, which is not open."""
    with Store.open(state_directory) as store:
        records.new_campaign(store)
    return state_directory / FILE


def limited(path: Path, pragma: str) -> Store:
    """Return a store whose connections are restricted by a pragma."""
    sqlite = SQLite(path)
    event.listen(sqlite.reader, "connect", lambda connection, _: connection.execute(pragma))
    return Store(sqlite)


def test_every_connection_is_set_up(path: Path) -> None:
    with closing(sqlite3.connect(path)) as bare:
        assert bare.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    engine = open_sqlite(path)
    with engine.connect() as first, engine.connect() as second:
        for connection in (first, second):
            for pragma, value in (("synchronous", 2), ("foreign_keys", 1)):
                assert connection.exec_driver_sql(f"PRAGMA {pragma}").scalar() == value
    engine.dispose()


def test_state_directory_is_private(state_directory: Path) -> None:
    Store.open(state_directory / "below").close()
    assert (state_directory / "below").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("name", ["a?mode=ro", "b:c,d", "e%20f", "g#h"])
def test_any_directory_will_do(tmp_path: Path, name: str) -> None:
    with Store.open(tmp_path / name) as store:
        records.new_campaign(store)
    assert [p.name for p in (tmp_path / name).iterdir()] == [FILE]


def test_state_directory_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match=r"file/state.*FSTUNE_STATE_DIR"):
        Store.open(tmp_path / "file" / "state")


@pytest.mark.parametrize("code", [sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY])
@pytest.mark.parametrize("whole", [False, True])
def test_directory_that_is_read_only(
    path: Path, monkeypatch: pytest.MonkeyPatch, code: int, *, whole: bool
) -> None:
    error = sqlite3.OperationalError()
    error.sqlite_errorcode = code
    sqlite = SQLite(path)
    assert "read-only" not in sqlite.advice(error)
    if whole:
        answer = SimpleNamespace(f_flag=os.ST_RDONLY)
        monkeypatch.setattr(os, "statvfs", lambda _: answer)
        expected = "it is on a read-only filesystem, "
    else:
        # Root may write to any directory.
        monkeypatch.setattr(os, "access", lambda *_: False)
        expected = f"its directory {path.parent} is read-only for this account, "
    assert sqlite.advice(error).startswith(expected)
    sqlite.close()


def test_file_that_was_moved_away_is_not_created_anew(path: Path) -> None:
    with Store.open(path.parent) as store:
        path.rename(path.parent / "elsewhere")
        # While the first connection is in use, another one is needed.
        with (
            store._database.reader.connect(),
            pytest.raises(StoreError, match=rf"{FILE}: the file was moved, deleted or replaced"),
        ):
            store.campaigns()
        assert not path.exists()
        assert len(store.campaigns()) == 1


def test_file_that_cannot_be_opened(tmp_path: Path) -> None:
    (tmp_path / FILE).mkdir()
    with pytest.raises(StoreError, match=rf"{FILE}: it cannot be opened; check"):
        Store.open(tmp_path)


@pytest.mark.parametrize(
    ("revision", "advice"), [("0001", "run 'fstune db upgrade'"), ("9999", "use the version that")]
)
def test_other_revision_is_refused(path: Path, revision: str, advice: str) -> None:
    with closing(sqlite3.connect(path)) as raw:
        raw.execute("UPDATE alembic_version SET version_num = ?", (revision,))
        raw.commit()
    before = path.read_bytes()
    with pytest.raises(StoreError, match=rf"{FILE} has tables of revision {revision}.*{advice}"):
        Store.open(path.parent)
    assert path.read_bytes() == before


def test_database_of_another_program_is_refused(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / FILE)) as raw:
        raw.execute("CREATE TABLE other (x)")
        raw.commit()
    with pytest.raises(StoreError, match=rf"{FILE} belongs to another program"):
        Store.open(tmp_path)
    with closing(sqlite3.connect(tmp_path / FILE)) as raw:
        assert raw.execute("SELECT name FROM sqlite_master").fetchall() == [("other",)]


def test_file_that_is_no_database(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"something else\n" * 100)
    with pytest.raises(StoreError, match=rf"{FILE}: it is not a database; move it away"):
        Store.open(tmp_path)


def test_damaged_database(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[4096:] = b"\xff" * (len(content) - 4096)
    path.write_bytes(content)
    with pytest.raises(StoreError, match=rf"{FILE}: it is damaged; restore a copy"):
        Store.open(path.parent)


def test_locked_database(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "BUSY_TIMEOUT_S", 0.0)
    with (
        Store.open(path.parent, patience_s=0.0) as store,
        closing(sqlite3.connect(path, isolation_level=None)) as other,
    ):
        other.execute("BEGIN IMMEDIATE")
        campaign = store.campaign("last").id
        with pytest.raises(StoreError, match=rf"{FILE}: locked by another process"):
            store.add_event(campaign, records.event())
        other.execute("ROLLBACK")
        store.add_event(campaign, records.event())


def test_a_database_that_is_locked_for_long_is_waited_for(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As during the import of a long campaign: a running one must not fail."""
    monkeypatch.setattr(database, "BUSY_TIMEOUT_S", 0.0)
    with (
        Store.open(path.parent) as store,
        closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other,
    ):
        other.execute("BEGIN IMMEDIATE")
        campaign = store.campaign("last").id
        end = threading.Timer(0.5, other.execute, ["ROLLBACK"])
        end.start()
        store.add_event(campaign, records.event())
        end.join()
    assert f"{path} is locked by another process; waiting up to 300 s" in caplog.messages
    assert f"{path} responds again" in caplog.messages


def fill(store: Store, campaign: str) -> None:
    for number in range(10, 1000):
        store.add_trials(campaign, [(records.trial(number), records.event())])


def test_full_disk(path: Path) -> None:
    pages = path.stat().st_size // 4096 + 8
    store = limited(path, f"PRAGMA max_page_count = {pages}")
    campaign = store.campaign("last").id
    with pytest.raises(StoreError, match=rf"{FILE}: its disk is full; make room and try again"):
        fill(store, campaign)
    trials, events = len(store.trials(campaign)), len(store.events(campaign))
    assert events == trials + 1
    store.close()


@pytest.mark.parametrize(
    "change",
    [
        lambda store, campaign: store.add_event(campaign, records.event()),
        lambda store, _: store.create_campaign("c", "{}", 0, records.NOON),
    ],
)
def test_database_that_may_not_be_written(
    path: Path, change: Callable[[Store, str], object]
) -> None:
    store = limited(path, "PRAGMA query_only = ON")
    campaign = store.campaign("last").id
    with pytest.raises(StoreError, match=rf"{FILE}: no permission to write it; use the account"):
        change(store, campaign)
    store.close()


def test_database_without_a_write_ahead_log() -> None:
    # A database in memory cannot have one, like one on a network filesystem.
    engine = open_sqlite(Path(":memory:"))
    with pytest.raises(StoreError, match="use a state directory on a local disk"):
        engine.connect()


def test_failure_of_an_unknown_kind(path: Path) -> None:
    class Unknown(Exception):
        pass

    with (
        closing(SQLite(path)) as sqlite,
        pytest.raises(StoreError, match=rf"{FILE}: unexpected error \(odd\)$"),
        sqlite.translating_errors(),
    ):
        raise OperationalError("SELECT 1", {}, Unknown("odd\nand more"))


def test_message_is_one_line_without_statements(path: Path) -> None:
    with Store.open(path.parent) as store:
        campaign = store.campaign("last").id
        with closing(sqlite3.connect(path)) as other:
            other.execute("DROP TABLE component")
        with pytest.raises(StoreError, match=rf"{FILE}: unexpected error \(no such") as caught:
            store.blocks(campaign)
    assert "SELECT" not in str(caught.value)
    assert "\n" not in str(caught.value)
