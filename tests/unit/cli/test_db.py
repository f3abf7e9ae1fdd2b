"""The commands that maintain the database, and errors of all commands with PostgreSQL."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Fstune
from tests.unit.store import records
from tuner.store import Store, tables
from tuner.store.opening import FILE

pytestmark = pytest.mark.slow

PASSWORD = "unheard-of"


def test_an_old_database_is_brought_up_to_date(fstune: Fstune, state: Path, root: Path) -> None:
    dump = (root / "tests" / "data" / "databases" / "revision-0001.sql").read_text()
    state.mkdir()
    with closing(sqlite3.connect(state / FILE)) as raw:
        raw.executescript(dump)
    refused = fstune("list")
    assert refused.returncode == 5
    assert "run 'fstune db upgrade'" in refused.stderr
    upgraded = fstune("db", "upgrade")
    assert upgraded.returncode == 0, upgraded.stderr
    lines = upgraded.stdout.splitlines()
    copy = Path(lines[0].removeprefix("the database as it was before is in "))
    assert copy.is_file()
    assert lines[1] == f"{state / FILE}: upgraded from revision 0001 to {tables.REVISION}"
    assert "first release" in fstune("list").stdout
    again = fstune("db", "upgrade")
    assert again.stdout == f"{state / FILE}: revision {tables.REVISION}, nothing to do\n"


def test_a_database_is_checked(fstune: Fstune, state: Path) -> None:
    with Store.open(state) as store:
        campaign = records.new_campaign(store)
    sound = fstune("db", "check")
    assert (sound.returncode, sound.stdout) == (0, f"{state / FILE}: sound, 1 campaign\n")
    with closing(sqlite3.connect(state / FILE)) as raw:
        raw.execute("DELETE FROM event WHERE number = 1")
        raw.commit()
    unsound = fstune("db", "check")
    assert unsound.returncode == 5
    assert unsound.stdout.startswith(f"campaign {campaign}: its events are not numbered")
    assert "1 problem; restore a backup" in unsound.stderr


def test_a_database_is_copied(fstune: Fstune, state: Path, tmp_path: Path) -> None:
    with Store.open(state) as store:
        campaign = records.new_campaign(store)
    copy = tmp_path / FILE
    assert fstune("db", "backup", copy).stdout == f"{state / FILE}: copied to {copy}\n"
    assert campaign in fstune("list", "--state-dir", tmp_path).stdout
    again = fstune("db", "backup", copy)
    assert (again.returncode, again.stderr) == (4, f"fstune: {copy} exists; name a new file\n")


@pytest.mark.parametrize("variable", [True, False])
def test_no_message_contains_a_password(
    fstune: Fstune, environment: dict[str, str], tmp_path: Path, variable: bool
) -> None:
    address = f"postgresql://someone:{PASSWORD}@/data?host={tmp_path}"
    option = [] if variable else ["--database", address]
    if variable:
        environment["FSTUNE_DATABASE_URL"] = address
    for command in (["list"], ["db", "check"], ["db", "upgrade"], ["compare", "last:0", "last:1"]):
        done = fstune(*command, *option)
        assert done.returncode == 5
        assert done.stderr.startswith("fstune: postgresql://someone@/data: no connection; is")
        assert PASSWORD not in done.stdout + done.stderr


def test_an_invalid_address(fstune: Fstune) -> None:
    done = fstune("list", "--database", f"mysql://someone:{PASSWORD}@host/data")
    assert done.returncode == 2
    assert done.stderr == "fstune: a database address has the form postgresql://USER@HOST/NAME\n"
