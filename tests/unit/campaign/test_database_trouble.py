"""The database of a running campaign fails: its disk is full, or its server is restarted."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path

import psycopg
import pytest

from tests.postgresql import Server, running
from tests.unit.campaign.outcomes import Place, newest_campaign, outcome, write_campaign
from tuner.errors import StoreError
from tuner.states import BlockState, CampaignState
from tuner.store import Store

pytestmark = pytest.mark.slow

FSTUNE = (sys.executable, "-c", "from tuner.cli import main; main()")
#: Whole megabytes; a PostgreSQL database takes eight.
DISK_BYTES = 24 << 20
#: Free space at the start: less than the campaign's write-ahead log takes, enough to begin.
FREE_BYTES = 1 << 20
#: The signal that stops the server, by the number of the measurement that is being stored.
RESTARTS = {4: signal.SIGINT, 8: signal.SIGQUIT}
#: Storing a measurement whose number is in the table waits until the number is deleted.
GATE = (
    "CREATE TABLE gate (number integer) TABLESPACE pg_default",
    """
    CREATE FUNCTION wait_at_gate() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        WHILE EXISTS (SELECT FROM gate WHERE number = (SELECT count(*) FROM measurement)) LOOP
            PERFORM pg_sleep(0.01);
        END LOOP;
        RETURN NULL;
    END $$
    """,
    "CREATE TRIGGER gate AFTER INSERT ON measurement FOR EACH ROW EXECUTE FUNCTION wait_at_gate()",
)


class SmallDisk:
    """An in-memory disk in its own mount namespace, which disappears with its keeper process."""

    def __init__(self, directory: Path) -> None:
        script = 'mount -t tmpfs -o size="$1",mode=777 tmpfs "$2" && echo ready && exec cat'
        words = ["sh", "-c", script, "sh", str(DISK_BYTES), str(directory)]
        self._keeper = subprocess.Popen(
            ["unshare", "--mount", "--propagation=private", "--", *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._keeper.stdout is not None
        assert self._keeper.stdout.readline() == "ready\n"
        self.directory = directory
        #: Command prefix for programs that see the disk.
        self.within = ("nsenter", "--mount", f"--target={self._keeper.pid}", "--")
        #: The path of the disk for other processes.
        self.outside = Path(f"/proc/{self._keeper.pid}/root{directory}")

    def fill(self, free_bytes: int = 0) -> None:
        """Fill the disk, except for ``free_bytes``."""
        left = os.statvfs(self.outside)
        # Another process may take some of the space first.
        with suppress(OSError), (self.outside / "ballast").open("wb", buffering=0) as ballast:
            ballast.write(bytes(left.f_bavail * left.f_frsize - free_bytes))

    def make_room(self) -> None:
        (self.outside / "ballast").unlink()

    def close(self) -> None:
        self._keeper.communicate()


@pytest.fixture
def disk() -> Iterator[SmallDisk]:
    if os.geteuid() != 0:
        pytest.skip("mounting a disk needs root")
    # Not below pytest's directory, which only its owner may enter.
    with tempfile.TemporaryDirectory(prefix="fstune-disk-") as directory:
        Path(directory).chmod(0o755)
        with closing(SmallDisk(Path(directory))) as small:
            yield small


@pytest.fixture(scope="module")
def environment(root: Path) -> dict[str, str]:
    return dict(os.environ, PYTHONPATH=str(root))


@pytest.fixture(scope="module")
def campaign_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_campaign(tmp_path_factory.mktemp("campaign") / "campaign.yaml")


@pytest.fixture(scope="module")
def expected(
    campaign_file: Path, environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> object:
    """Return the outcome of the campaign when nothing fails."""
    calm = Place(tmp_path_factory.mktemp("calm"))
    with started(campaign_file, calm, environment) as process:
        _, output = process.communicate()
    assert process.returncode == 0, output
    return outcome(calm)


def started(
    file: Path, place: Place, environment: dict[str, str], within: Sequence[str] = ()
) -> subprocess.Popen[str]:
    """Start a new campaign in a separate process."""
    return subprocess.Popen(
        [*within, *FSTUNE, "run", str(file), *place.options],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def taken_up(place: Place, environment: dict[str, str], within: Sequence[str] = ()) -> None:
    """Resume a campaign and run it to its end."""
    resume = [*within, *FSTUNE, "resume", *place.options]
    done = subprocess.run(resume, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def check_that_it_stopped(process: subprocess.Popen[str]) -> str:
    """Check that a campaign ends on its own, and says why and what to do; return all it says."""
    _, output = process.communicate()
    assert process.returncode == StoreError.exit_code, output
    assert output.splitlines()[-1].startswith("fstune: ")
    assert "its disk is full; make room and try again; 'fstune resume'" in output.splitlines()[-1]
    assert "Traceback" not in output
    return output


def check_that_it_was_cut_off(store: Store) -> None:
    """Check that something had been measured before the stop, and that no block is missing."""
    campaign, _, blocks = newest_campaign(store)
    assert campaign.state is CampaignState.FINISHED
    events = [event.kind for event in store.events(campaign.id)]
    first, second = (n for n, kind in enumerate(events) if kind == "campaign-started")
    assert "measured" in events[first:second]
    assert "recommendation" not in events[:second]
    assert [block.number for block in blocks] == list(range(1, len(blocks) + 1))


def test_a_full_disk_stops_a_campaign_which_then_goes_on(
    disk: SmallDisk,
    campaign_file: Path,
    tmp_path: Path,
    environment: dict[str, str],
    expected: object,
) -> None:
    disk.fill(FREE_BYTES)
    place = Place(disk.directory / "state")
    with started(campaign_file, place, environment, disk.within) as process:
        assert check_that_it_stopped(process).count("\n") == 1
    disk.make_room()
    taken_up(place, environment, disk.within)
    copy = Place(tmp_path / "copy")
    copy.state.mkdir()
    for file in (disk.outside / "state").iterdir():
        (copy.state / file.name).write_bytes(file.read_bytes())
    with copy.open() as store:
        check_that_it_was_cut_off(store)
    assert outcome(copy) == expected


@pytest.mark.postgres
def test_a_server_with_a_full_disk_stops_a_campaign_which_then_goes_on(
    disk: SmallDisk,
    campaign_file: Path,
    tmp_path: Path,
    root: Path,
    environment: dict[str, str],
    expected: object,
) -> None:
    space = disk.outside / "space"
    space.mkdir()
    shutil.chown(space, "nobody", "nogroup")
    with running(root / "build" / "test-state" / "packages", disk.within) as server:
        server.execute(f"CREATE TABLESPACE small LOCATION '{disk.directory}/space'")
        server.execute("CREATE DATABASE campaigns TABLESPACE small")
        place = Place(tmp_path / "state", server.url("campaigns"))
        place.open().close()
        gates(server, "campaigns", 4)
        with started(campaign_file, place, environment) as process:
            await_gate(server, "campaigns", 4)
            disk.fill()
            server.execute("DELETE FROM gate", "campaigns")
            check_that_it_stopped(process)
        disk.make_room()
        taken_up(place, environment)
        with place.open() as store:
            check_that_it_was_cut_off(store)
        assert outcome(place) == expected


@pytest.mark.postgres
def test_a_campaign_waits_for_a_server_that_is_restarted(
    postgresql: Server,
    template: str,
    campaign_file: Path,
    tmp_path: Path,
    environment: dict[str, str],
    expected: object,
) -> None:
    name = postgresql.new(template)
    place = Place(tmp_path / "state", postgresql.url(name))
    gates(postgresql, name, *RESTARTS)
    output = ""
    with started(campaign_file, place, environment) as process:
        assert process.stderr is not None
        for number, how in RESTARTS.items():
            await_gate(postgresql, name, number)
            postgresql.stop(how)
            while "does not respond; waiting" not in (line := process.stderr.readline()):
                assert process.poll() is None, output + line
                output += line
            output += line
            postgresql.start()
            postgresql.execute(f"DELETE FROM gate WHERE number = {number}", name)
        output += process.communicate()[1]
    assert process.returncode == 0, output
    assert output.count("does not respond; waiting") == len(RESTARTS)
    assert output.count("responds again") == len(RESTARTS)
    with place.open() as store:
        campaign, _, blocks = newest_campaign(store)
        events = store.events(campaign.id)
    # It continued where it was: nothing was measured again, and no event was stored twice.
    assert all(block.state is BlockState.COMPLETE for block in blocks)
    assert [event.number for event in events] == list(range(1, len(events) + 1))
    assert sum(event.kind == "campaign-started" for event in events) == 1
    assert outcome(place) == expected


def gates(server: Server, database: str, *numbers: int) -> None:
    """Make a campaign wait while it stores the measurements with these numbers."""
    for statement in GATE:
        server.execute(statement, database)
    for number in numbers:
        server.execute(f"INSERT INTO gate VALUES ({number})", database)


def await_gate(server: Server, database: str, number: int) -> None:
    """Wait until storing that measurement is held up: one measurement fewer is stored."""
    deadline = time.monotonic() + 100.0
    question = (
        f"SELECT (SELECT count(*) FROM measurement) = {number - 1} AND EXISTS (SELECT FROM "
        "pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep')"
    ).encode()
    with psycopg.connect(server.url(database), autocommit=True) as connection:
        while connection.execute(question).fetchone() != (True,):
            assert time.monotonic() < deadline
            time.sleep(0.002)
