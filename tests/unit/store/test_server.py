"""A PostgreSQL server that goes away, and connections that break: nothing is lost or done twice."""

from __future__ import annotations

import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest
import yaml
from sqlalchemy import Connection, event, select
from typer.testing import CliRunner

from tests.postgresql import PASSWORD, SECRET_ROLE, Server
from tests.unit.campaign.campaigns import SHORT, faster, spec
from tests.unit.store import proxy, records, test_leases
from tests.unit.store.conftest import Place
from tests.unit.store.proxy import Moment, Proxy
from tuner.cli.app import app
from tuner.errors import ConflictError, SpecError, StoreError
from tuner.states import CampaignState, TrialState
from tuner.store import Store, backup, database, problems, queries, tables
from tuner.store.opening import FILE
from tuner.store.postgresql import PostgreSQL
from tuner.time_use import TimeUse

pytestmark = [pytest.mark.postgres, pytest.mark.slow]

PROXY_PORT = 6000
DAY = timedelta(days=1)
DAY_S = DAY.total_seconds()


@pytest.fixture
def place(postgresql: Server, name: str, state_directory: Path) -> Place:
    return Place(state_directory, postgresql.url(name))


def test_restarts_in_the_middle_of_writing(postgresql: Server, place: Place, store: Store) -> None:
    campaign = records.new_campaign(store, trials=0)
    over = threading.Event()

    def restart() -> None:
        for how in (signal.SIGINT, signal.SIGQUIT, signal.SIGINT):
            time.sleep(0.1)
            postgresql.stop(how)
            time.sleep(0.1)
            postgresql.start()
        over.set()

    restarting = threading.Thread(target=restart)
    restarting.start()
    count = 0
    while not over.is_set():
        new = replace(records.event(), message=f"event {count}")
        assert store.add_event(campaign, new).number == count + 2
        count += 1
    restarting.join()
    events = store.events(campaign)
    assert [e.message for e in events[1:]] == [f"event {number}" for number in range(count)]
    assert [e.number for e in events] == list(range(1, count + 2))


@pytest.fixture
def broken(postgresql: Server, name: str) -> Iterator[tuple[Store, Proxy]]:
    """Return a store whose connection can be broken on demand, and the proxy that breaks it."""
    mine, real = (postgresql.place / f".s.PGSQL.{port}" for port in (PROXY_PORT, 5432))
    with proxy.between(mine, real) as between:
        address = postgresql.url(name).replace("5432", str(PROXY_PORT))
        with Store.open(Path("unused"), address) as store:
            yield store, between


WRITES: dict[str, Callable[[Store, str], object]] = {
    "event": lambda store, campaign: store.add_event(campaign, records.event()),
    "time use": lambda store, campaign: store.add_time_use(campaign, TimeUse(1.0, 0.5, 0.25, 0.1)),
    "trial": lambda store, campaign: store.add_trials(
        campaign, [(records.trial(2), records.event())]
    ),
    "state": lambda store, campaign: store.move_trial(
        campaign, 1, TrialState.PRUNED, "slow", records.event()
    ),
    "measurement": lambda store, campaign: store.add_measurement(
        campaign, 1, records.measurement(1), records.event()
    ),
    "baseline": lambda store, campaign: store.set_baseline(
        campaign, records.BASELINE_CONFIGURATION, records.event()
    ),
    "void": lambda store, campaign: store.void_running_blocks(campaign, "cut", records.event()),
    "answer": lambda store, campaign: store.save_recommendation(
        campaign, records.recommendation(), records.event()
    ),
}


def everything(store: Store, campaign: str) -> tuple[object, ...]:
    record = store.campaign(campaign)
    history = store.events(campaign)
    return replace(record, id=""), store.trials(campaign), store.blocks(campaign), history


@pytest.mark.parametrize("moment", ["lost", "answer-lost", "late"])
@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES.keys())
def test_a_write_whose_connection_breaks_happens_once(
    broken: tuple[Store, Proxy], moment: Moment, write: Callable[[Store, str], object]
) -> None:
    store, between = broken
    disturbed, calm = records.new_campaign(store), records.new_campaign(store)
    for campaign in (disturbed, calm):
        store.begin_block(campaign, records.block(1), records.event())
    between.break_next(moment)
    answer = write(store, disturbed)
    assert between.broken == 1
    assert write(store, calm) == answer
    assert everything(store, disturbed) == everything(store, calm)


@pytest.mark.parametrize("moment", ["lost", "answer-lost", "late"])
def test_a_campaign_is_created_once(broken: tuple[Store, Proxy], moment: Moment) -> None:
    store, between = broken
    between.break_next(moment)
    campaign = store.create_campaign("c", "{}", 0, records.NOON)
    assert between.broken == 1
    assert store.campaigns() == [campaign]


def test_waiting_has_a_limit(
    postgresql: Server, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = records.new_campaign(store)
    postgresql.stop()
    try:
        monkeypatch.setattr(database, "PATIENCE_S", 0.5)
        with pytest.raises(StoreError, match="no connection; is it running"):
            store.add_event(campaign, records.event())
        # Later transactions, such as the one that marks the campaign as failed, do not wait again.
        monkeypatch.setattr(time, "sleep", lambda _: pytest.fail("it waits again"))
        with pytest.raises(StoreError, match="no connection"):
            store.events(campaign)
        monkeypatch.undo()
    finally:
        postgresql.start()
    assert store.add_event(campaign, records.event()).number == 4


def test_a_lease_outlasts_a_server_that_was_away(store: Store, place: Place) -> None:
    """Its process had no chance to send a heartbeat."""
    campaign, other = test_leases.running(store), test_leases.running(store)
    test_leases.take(store, campaign, limit_s=10 * DAY_S)
    with place.raw() as connection:
        beat = store.leases()[0].taken - 30 * DAY
        connection.execute(tables.lease.update().values(beat=beat))
        connection.commit()
    with pytest.raises(ConflictError, match="in use by campaign"):
        test_leases.take(store, other, holder=test_leases.THERE)


@pytest.mark.parametrize("beats", [True, False], ids=["heartbeat", "another process"])
def test_the_time_of_a_recovery_is_no_silence(
    postgresql: Server, store: Store, place: Place, *, beats: bool
) -> None:
    """The server restarts all of its sessions when one of them is killed, but not itself."""
    campaign, other = test_leases.running(store), test_leases.running(store)
    lease = test_leases.take(store, campaign, limit_s=10 * DAY_S)
    mine = PostgreSQL(str(place.address))
    with place.raw() as connection:
        before = mine.moment(connection)
        postgresql.kill_session(connection.exec_driver_sql("SELECT pg_backend_pid()").scalar_one())
        connection.invalidate()
    with place.raw() as connection:
        beat = lease.taken - 30 * DAY
        connection.execute(tables.lease.update().values(beat=beat))
        connection.commit()
        (again,) = store.leases()
        away_s = (mine.moment(connection) - before).total_seconds()
    assert 0.0 <= again.beat_age_s < away_s
    if beats:
        store.beat(replace(lease, token="of an earlier lease"))
    else:
        with pytest.raises(ConflictError, match="in use by campaign"):
            test_leases.take(store, other, holder=test_leases.THERE)
    with place.raw() as connection:
        since = mine.up_since(connection)
        assert before < since < mine.moment(connection)
    with pytest.raises(ConflictError, match="in use by campaign"):
        test_leases.take(store, other, holder=test_leases.THERE)
    with place.raw() as connection:
        assert mine.up_since(connection) == since
    mine.close()


def test_a_user_who_may_create_no_table_takes_testbeds(
    postgresql: Server, store: Store, name: str, tmp_path: Path
) -> None:
    """The time of a recovery is not noted then."""
    campaign = test_leases.running(store)
    role = f"reader_{name}"
    postgresql.execute(f"CREATE ROLE {role} LOGIN")
    rights = "SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public"
    postgresql.execute(f"GRANT {rights} TO {role}", name)
    postgresql.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC", name)
    with Store.open(tmp_path, postgresql.url(name, role)) as lesser:
        lease = test_leases.take(lesser, campaign)
        assert lesser.beat(lease)


def test_a_server_that_was_never_there_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "sleep", lambda _: pytest.fail("it waits"))
    address = f"postgresql://someone:{PASSWORD}@/data?host={tmp_path}"
    with pytest.raises(StoreError, match=r"^postgresql://someone@/data: no connection") as caught:
        Store.open(tmp_path, address)
    assert PASSWORD not in str(caught.value)


def test_a_password_works_and_is_never_shown(
    postgresql: Server, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = postgresql.url(name, SECRET_ROLE)
    in_place = address.replace("@", f":{PASSWORD}@")
    for good in (in_place, f"{address}&password={PASSWORD}"):
        with Store.open(tmp_path, good) as store:
            assert store.where == f"postgresql://{SECRET_ROLE}@/{name}"
    wrong = in_place.replace(PASSWORD, "guess-work")
    with pytest.raises(StoreError, match="Check address, user and password") as caught:
        Store.open(tmp_path, wrong)
    assert "guess-work" not in str(caught.value)
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    Store.open(tmp_path, address).close()


@pytest.mark.parametrize(
    "address",
    [
        "",
        "campaigns",
        "sqlite:///file",
        "mysql://user:secret@host/name",
        "postgresql://user:secret@host",
        "postgresql://user:secret@host:port/name",
    ],
)
def test_an_invalid_address(address: str, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="has the form postgresql://USER@HOST/NAME") as caught:
        Store.open(tmp_path, address)
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_database_that_does_not_exist(postgresql: Server, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r'no connection.*"nowhere" does not exist'):
        Store.open(tmp_path, postgresql.url("nowhere"))


def test_a_lock_is_not_waited_for_indefinitely(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "BUSY_TIMEOUT_S", 0.05)
    with place.open() as store, place.raw() as other:
        campaign = records.new_campaign(store)
        queries.campaign_row(other, campaign, lock=True)
        with pytest.raises(StoreError, match="locked by another process"):
            store.add_event(campaign, records.event())
        other.rollback()
        store.add_event(campaign, records.event())


def test_a_state_changed_by_somebody_else_is_not_overwritten(store: Store, place: Place) -> None:
    """Even for a writer that ignores the lock that each change of a campaign takes."""
    campaign = records.new_campaign(store)
    table = tables.trial
    this = (table.c.campaign == campaign) & (table.c.number == 1)
    with place.raw() as slow:

        def overtake(_: Connection, __: object, statement: str, *others: object) -> None:
            if statement.startswith("UPDATE"):
                store.move_trial(campaign, 1, TrialState.PRUNED, "first", records.event())

        event.listen(slow, "before_cursor_execute", overtake)
        with pytest.raises(ConflictError, match="trial 1 is no longer running; it cannot become c"):
            queries.move(slow, table, this, "trial 1", TrialState.COMPLETE, reason="second")
        slow.commit()
    assert store.trials(campaign)[1].reason == "first"


def test_readers_see_a_consistent_snapshot(store: Store, place: Place) -> None:
    campaign = records.new_campaign(store)
    with (
        closing(PostgreSQL(str(place.address))) as database_there,
        database_there.reader.begin() as reading,
    ):
        before = reading.scalars(select(tables.event.c.number)).all()
        store.add_event(campaign, records.event())
        assert reading.scalars(select(tables.event.c.number)).all() == before
        with pytest.raises(Exception, match="read-only transaction"):
            reading.execute(tables.mark.delete())


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        (psycopg.errors.DiskFull(), "its disk is full; make room and try again; 'fstune resume'"),
        (psycopg.errors.InsufficientPrivilege(), "the user lacks privileges"),
        (psycopg.errors.DeadlockDetected(), "try again"),
        (psycopg.errors.SyntaxError(), "unexpected error"),
    ],
)
def test_advice(place: Place, error: psycopg.Error, advice: str) -> None:
    assert advice in PostgreSQL(str(place.address)).advice(error)


def test_old_marks_are_deleted(store: Store, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    campaign = records.new_campaign(store)
    with place.raw() as connection:
        connection.exec_driver_sql("UPDATE mark SET at = at - interval '2 days'")
        connection.commit()
    monkeypatch.setattr("secrets.randbelow", lambda _: 0)
    store.add_event(campaign, records.event())
    with place.raw() as connection:
        assert len(connection.execute(select(tables.mark)).all()) == 1


def test_a_backup_can_be_restored(
    postgresql: Server, store: Store, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable, value in postgresql.environment().items():
        monkeypatch.setenv(variable, value)
    campaign = records.new_campaign(store)
    file = tmp_path / "copy"
    secret = postgresql.url(name, SECRET_ROLE).replace("@", f":{PASSWORD}@")
    assert backup(tmp_path, file, secret) == f"postgresql://{SECRET_ROLE}@/{name}"
    assert file.stat().st_mode & 0o077 == 0
    with pytest.raises(ConflictError, match="copy exists; name a new file"):
        backup(tmp_path, file, secret)
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConflictError, match="link exists; name a new file"):
        backup(tmp_path, link, secret)
    assert not (tmp_path / "elsewhere").exists()
    restored = postgresql.url(postgresql.new())
    program = str(postgresql.programs / "pg_restore")
    subprocess.run([program, "--exit-on-error", f"--dbname={restored}", str(file)], check=True)
    with Store.open(tmp_path, restored) as copy:
        assert copy.trials(campaign) == store.trials(campaign)
        assert copy.events(campaign) == store.events(campaign)


def test_a_backup_that_fails_leaves_nothing(
    postgresql: Server, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable, value in postgresql.environment().items():
        monkeypatch.setenv(variable, value)
    missing = tmp_path / "missing" / "copy"
    with pytest.raises(StoreError, match="missing/copy cannot be written: No such file"):
        backup(tmp_path, missing, postgresql.url(name))
    assert not missing.exists()
    program, file = tmp_path / "bin" / "pg_dump", tmp_path / "copy"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho half\necho no space left >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent))
    reason = "backup failed (no space left)"
    with pytest.raises(StoreError, match=f"^postgresql://postgres@.*{re.escape(reason)}"):
        backup(tmp_path, file, postgresql.url(name))
    assert not file.exists()
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(StoreError, match="pg_dump is missing; install"):
        backup(tmp_path, tmp_path / "copy", postgresql.url(name))


def test_the_command_line_on_a_server(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "campaign.yaml"
    small = spec(faster(), **SHORT)
    file.write_text(yaml.safe_dump(small.model_dump(mode="json", exclude_none=True)))
    monkeypatch.setenv("FSTUNE_DATABASE_URL", str(place.address))
    monkeypatch.setenv("FSTUNE_STATE_DIR", str(tmp_path))

    def answer(*arguments: str) -> str:
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 0, result.output
        return result.stdout

    answer("run", str(file))
    with place.open() as store:
        campaign = store.campaign("last")
        assert campaign.state is CampaignState.FINISHED
        assert problems(store) == []
    assert campaign.id in answer("list")
    assert "sound, 1 campaign" in answer("db", "check")
    assert "nothing to do" in answer("db", "upgrade")
    assert not (tmp_path / FILE).exists()
    monkeypatch.delenv("FSTUNE_DATABASE_URL")
    assert "sound, 0 campaigns" in answer("db", "check")
    assert campaign.id in answer("list", "--database", str(place.address))
