"""A PostgreSQL server for tests, from Debian's packages: nothing is installed, and no system
service is started.

Its data, socket and configuration are in a directory of its own. It does not listen on any network,
and it ends with the test run, no matter how that ends.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import psycopg

from deploy.cell.packages import ensure_packages
from tuner.store.tables import metadata

_VERSION = "15"
_PACKAGES = (f"postgresql-{_VERSION}", f"postgresql-client-{_VERSION}", "libpq5")
_PORT = 5432
_START_TIMEOUT_S = 100.0
#: In its log, each time that it begins to answer.
_READY = b"ready to accept connections"

#: A role with all rights, which must authenticate with its password.
SECRET_ROLE, PASSWORD = "keeper", "unheard-of"

_CONFIGURATION = f"""
listen_addresses = ''
port = {_PORT}
max_connections = 50
fsync = off
synchronous_commit = on
full_page_writes = off
shared_buffers = 16MB
jit = off
autovacuum = off
max_wal_size = 1GB
"""
_ACCESS = f"""
local all {SECRET_ROLE} scram-sha-256
local all all trust
"""


class Server:
    """A running server. Its databases are created from templates, which takes hardly any time."""

    def __init__(
        self, programs: Path, libraries: Path, place: Path, within: Sequence[str] = ()
    ) -> None:
        """``within``: the command to run its programs with, such as one that enters namespaces."""
        self.programs = programs
        self._within = within
        self.place = place
        self._data = place / "data"
        self._log = place / "log"
        self._libraries = libraries
        self._process: subprocess.Popen[bytes] | None = None
        self._numbers = count(1)
        # The server ends with the thread that started it, so it is started by one that stays.
        self._starter = ThreadPoolExecutor(max_workers=1)

    def make(self) -> None:
        """Create the server's files and start it."""
        if os.geteuid() == 0:
            shutil.chown(self.place, "nobody", "nogroup")
        result = subprocess.run(
            self._command(
                "initdb",
                f"--pgdata={self._data}",
                "--username=postgres",
                "--auth=trust",
                "--encoding=UTF8",
                "--locale=C.UTF-8",
                "--no-sync",
            ),
            cwd=self.place,
            env=self.environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        assert result.returncode == 0, result.stderr
        with (self._data / "postgresql.conf").open("a") as configuration:
            configuration.write(f"{_CONFIGURATION}unix_socket_directories = '{self.place}'\n")
        (self._data / "pg_hba.conf").write_text(_ACCESS)
        self.start()
        self.execute(f"CREATE ROLE {SECRET_ROLE} SUPERUSER LOGIN PASSWORD '{PASSWORD}'")

    def start(self) -> None:
        """Start the server and wait until it answers."""
        self._process = self._starter.submit(self._postgres).result()
        deadline = time.monotonic() + _START_TIMEOUT_S
        while True:
            try:
                return self.execute("SELECT 1")
            except psycopg.OperationalError:
                output = self._log.read_text()[-2000:]
                assert self._process.poll() is None, output
                assert time.monotonic() < deadline, output
            time.sleep(0.01)

    def _postgres(self) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as log:
            # In a session of its own, so that Ctrl-C in the terminal does not reach it.
            return subprocess.Popen(
                self._command("postgres", "-D", str(self._data)),
                cwd=self.place,
                env=self.environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop the server: SIGINT ends every session, SIGQUIT ends it immediately, like a crash."""
        assert self._process is not None
        self._process.send_signal(how)
        self._process.wait(timeout=100)

    def become_standby(self) -> None:
        """Restart as a standby, which can only be read, until it is promoted."""
        self.stop()
        signal_file = self._data / "standby.signal"
        signal_file.touch()
        if os.geteuid() == 0:
            shutil.chown(signal_file, "nobody", "nogroup")
        self.start()

    def promote(self) -> None:
        """Make a standby the primary; it has no effect on one that is."""
        if (self._data / "standby.signal").exists():
            self.execute("SELECT pg_promote()")

    def kill_session(self, process: int) -> None:
        """Kill the process of a session, as for lack of memory: the server then ends every session
        and recovers from its log. Wait until it answers again.
        """
        ready = self._log.read_bytes().count(_READY)
        os.kill(process, signal.SIGKILL)
        deadline = time.monotonic() + _START_TIMEOUT_S
        while self._log.read_bytes().count(_READY) == ready:
            assert time.monotonic() < deadline, self._log.read_text()[-2000:]
            time.sleep(0.01)

    def new(self, template: str = "template1") -> str:
        """Create a database and return its name."""
        name = f"db{next(self._numbers)}"
        # Copying its files costs less than writing them to the log, which is the default.
        self.execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY FILE_COPY")
        return name

    def empty(self, database: str) -> None:
        """Delete everything from our tables. TRUNCATE would create the files of each anew, which
        takes much longer.
        """
        deletions = (f"DELETE FROM {table}" for table in metadata.tables)
        # Otherwise the order would matter.
        self.execute("; ".join(["SET session_replication_role = replica", *deletions]), database)

    def url(self, database: str, user: str = "postgres") -> str:
        """Return the address of a database."""
        return f"postgresql://{user}@/{database}?host={self.place}&port={_PORT}"

    def execute(self, statement: str, database: str = "postgres") -> None:
        """Execute one statement, outside of transactions."""
        address = f"host={self.place} port={_PORT} user=postgres dbname={database}"
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute(statement.encode())

    def environment(self) -> dict[str, str]:
        """Return an environment in which its programs find their libraries, and each other."""
        mine = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
        path = f"{self.programs}:{mine.get('PATH', os.defpath)}"
        return mine | {"LC_ALL": "C.UTF-8", "LD_LIBRARY_PATH": str(self._libraries), "PATH": path}

    def _command(self, program: str, *arguments: str) -> list[str]:
        # It refuses to run as root, and must not outlive a test run that is killed.
        become = ["--reuid=nobody", "--regid=nogroup", "--clear-groups"]
        become = become if os.geteuid() == 0 else []
        end = ["--pdeathsig=QUIT"] if program == "postgres" else []
        return [
            *self._within,
            "setpriv",
            *become,
            *end,
            "--",
            str(self.programs / program),
            *arguments,
        ]


@contextmanager
def running(packages: Path, within: Sequence[str] = ()) -> Iterator[Server]:
    """Run a server of its own, from the packages in ``packages``, which are downloaded once."""
    tree = ensure_packages(packages, lambda message: None, name="postgresql", packages=_PACKAGES)
    # Not below pytest's directory, which only its owner may enter; and the path of a socket must be
    # short.
    place = Path(tempfile.mkdtemp(prefix="fstune-pg-"))
    try:
        tree = _reachable(tree, place)
        (libraries,) = (tree / "usr" / "lib").glob("*-linux-gnu*")
        server = Server(
            tree / "usr" / "lib" / "postgresql" / _VERSION / "bin", libraries, place, within
        )
        server.make()
        try:
            yield server
        finally:
            server.stop(signal.SIGQUIT)
    finally:
        shutil.rmtree(place)


def _reachable(tree: Path, place: Path) -> Path:
    """Return a tree that the server's account may read: a checkout may be in root's home
    directory.
    """
    place.chmod(0o755)
    if os.geteuid() != 0 or all(above.stat().st_mode & 0o001 for above in tree.parents):
        return tree
    copy = place / "tree"
    shutil.copytree(tree, copy, symlinks=True)
    return copy
