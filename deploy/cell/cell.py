"""Create, inspect and remove a private OpenAFS cell: one server node, and nodes for its clients.

Owns the cell's directory. Everything that belongs to a cell is below it or ends with its processes,
so taking a cell down is complete even after a crash or a reboot. Cells with different names can
coexist.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import IO

from deploy.cell import client as client_node
from deploy.cell import kerberos, network, server, ssh
from deploy.cell.errors import CellError, CellSpecError
from deploy.cell.machine import require_machine, require_own, require_root
from deploy.cell.node import Node, NodeAdditions, NodePlan, StartingNode, processes_below
from deploy.cell.packages import ensure_packages, ensure_private_packages
from deploy.cell.process import ProcessId

_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,30}[a-z0-9])?")
_RECORD = "cell.json"
_LOCK_TIMEOUT_S = 120.0
_LOCK_POLL_S = 0.1

_NO_ADDITIONS = NodeAdditions()


@dataclass(frozen=True, slots=True)
class CellSpec:
    """Specification of a cell.

    ``link``: rate of each client's link (``1gbit``), None for unlimited. ``ssh``: its nodes can run
    an SSH server (see ``ssh.py``). ``kerberos``: the server node runs a KDC (see ``kerberos.py``);
    such a cell needs no client nodes, because its clients may be elsewhere. ``cache_blocks``: size
    of each client's cache at first, in 1-KiB blocks; a smaller one is faster to start.
    """

    name: str = "default"
    clients: int = 1
    link: str | None = None
    ssh: bool = False
    kerberos: bool = False
    cache_blocks: int = client_node.INITIAL_BLOCKS

    def __post_init__(self) -> None:
        _check_name(self.name)
        least = 0 if self.kerberos else 1
        if not least <= self.clients <= network.MAX_CLIENTS:
            raise CellSpecError(
                f"clients: {self.clients} is not between {least} and {network.MAX_CLIENTS}"
            )
        if self.link is not None:
            network.check_rate(self.link)


@dataclass(frozen=True, slots=True)
class Cell:
    """A recorded cell: its spec and its nodes, the server first.

    ``ready``: fully built. ``temporary``: made for a campaign, which takes it down at its end.
    """

    spec: CellSpec
    nodes: tuple[Node, ...]
    ready: bool
    temporary: bool = False

    @property
    def server(self) -> Node:
        return self.nodes[0]

    @property
    def clients(self) -> tuple[Node, ...]:
        return self.nodes[1:]

    def is_alive(self) -> bool:
        """Whether the cell was fully built and all its nodes are running."""
        complete = len(self.nodes) == 1 + self.spec.clients
        return self.ready and complete and all(node.is_alive() for node in self.nodes)


class Cells:
    """The cells below one state directory (``state``, absolute), which share packages and locks."""

    def __init__(self, state_directory: Path) -> None:
        self.state = state_directory.absolute()
        if set(str(self.state)) & set(":,\\"):
            raise CellSpecError(
                f"state directory {self.state}: its path must not contain ':', ',' or backslashes"
            )
        if str(self.state.resolve()).startswith(("/etc/", "/usr/")):
            raise CellSpecError(
                f"state directory {self.state}: a cell overlays /etc and /usr with its files; "
                "use a directory elsewhere"
            )
        self._cells = self.state / "cells"

    def names(self) -> list[str]:
        """Sorted names of all cells that have a directory."""
        if not self._cells.is_dir():
            return []
        return sorted(entry.name for entry in self._cells.iterdir() if _NAME.fullmatch(entry.name))

    def exists(self, name: str) -> bool:
        """Whether there is anything of this cell."""
        return self._directory(name).exists()

    def load(self, name: str) -> Cell | None:
        """Load a recorded cell, running or not; None if there is none.

        Raises CellError if the record is damaged or cannot be read with our permissions.
        """
        directory = self._directory(name)
        try:
            document = json.loads((directory / _RECORD).read_text())
            spec = CellSpec(**document["spec"])
            nodes = tuple(
                Node(
                    node["name"],
                    directory / node["name"],
                    ProcessId(**node["init"]),
                    ProcessId(**node["starter"]),
                )
                for node in document["nodes"]
            )
            temporary = bool(document.get("temporary"))
            return Cell(spec, nodes, bool(document["ready"]), temporary)
        except FileNotFoundError:
            return None
        except PermissionError:
            raise CellError(f"cell {name} belongs to root: run it with sudo") from None
        except (ValueError, KeyError, TypeError, CellError) as problem:
            raise CellError(
                f"{directory / _RECORD} is damaged ({problem!r}); take the cell down"
            ) from problem

    def up(
        self,
        spec: CellSpec,
        say: Callable[[str], None] = lambda text: None,
        additions: NodeAdditions = _NO_ADDITIONS,
        *,
        temporary: bool = False,
    ) -> Cell:
        """Bring the cell up, or return it unchanged if it is already up. ``temporary``: see Cell.

        An incomplete cell, or one left by a crash or reboot, is removed first. On any failure,
        including Ctrl-C, nothing of the new cell is left behind. Raises CellError.
        """
        require_machine()
        with self._lock(spec.name):
            require_own(self.state)
            existing = self._load_intact(spec.name)
            if existing is not None and existing.is_alive():
                if existing.spec != spec:
                    raise CellError(
                        f"cell {spec.name} is up with {_size(existing.spec)}, not {_size(spec)}; "
                        f"take it down first: fstune cell down --name {spec.name}"
                    )
                say(f"cell {spec.name} is up already")
                if existing.temporary and not temporary:
                    existing = replace(existing, temporary=False)
                    self._record(existing)
                return existing
            self._clear(spec.name)
            try:
                return self._build(spec, say, additions, temporary=temporary)
            except BaseException:
                self._clear(spec.name)
                raise

    def down(self, name: str) -> bool:
        """Take the cell down completely; False if it did not exist. Raises CellError if in use."""
        require_root()
        directory = self._directory(name)
        with self._lock(name), self.use(name):
            existed = directory.exists()
            self._clear(name)
        return existed

    @contextlib.contextmanager
    def use(self, name: str, *, shared: bool = False) -> Iterator[None]:
        """Lock the cell for one campaign. Raises CellError immediately if another has it locked.

        ``shared``: take a shared lock, which also prevents taking the cell down.
        """
        message = f"cell {name} is in use by a running campaign; stop that first"
        with self.lock_at_once(f"cell-{name}.use", message, shared=shared):
            yield

    @contextlib.contextmanager
    def lock_at_once(self, file: str, message: str, *, shared: bool = False) -> Iterator[None]:
        """Lock a lock file. Raises CellError with the ``message`` if it is locked."""
        with self._open_lock(file) as lock:
            try:
                fcntl.flock(lock, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
            except BlockingIOError:
                raise CellError(message) from None
            yield

    def _directory(self, name: str) -> Path:
        _check_name(name)
        return self._cells / name

    @contextlib.contextmanager
    def _lock(self, name: str) -> Iterator[None]:
        deadline = time.monotonic() + _LOCK_TIMEOUT_S
        with self._open_lock(f"cell-{name}.lock") as lock:
            while True:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > deadline:
                        raise CellError(
                            f"another fstune is working on cell {name}; try again later"
                        ) from None
                time.sleep(_LOCK_POLL_S)
            yield

    def _open_lock(self, name: str) -> IO[str]:
        """Open a lock file that only root can open. Raises CellError if it cannot be created."""
        locks = self.state / "locks"
        try:
            # Any process that can open the file can lock it and block us forever.
            self.state.mkdir(mode=0o700, parents=True, exist_ok=True)
            locks.mkdir(mode=0o700, exist_ok=True)
            locks.chmod(0o700)
            descriptor = os.open(locks / name, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            os.fchmod(descriptor, 0o600)
            return os.fdopen(descriptor, "a")
        except OSError as problem:
            where = problem.filename or locks
            raise CellError(
                f"{where}: cannot be written ({problem.strerror}); name another state directory"
            ) from problem

    def _clear(self, name: str) -> None:
        """Kill the cell's processes and remove its directory, whatever its state."""
        directory = self._directory(name)
        cell = self._load_intact(name)
        if cell is not None:
            for node in reversed(cell.nodes):
                node.stop()
        else:
            for process in processes_below(directory):
                process.kill()
        if directory.exists():
            shutil.rmtree(directory)
            with contextlib.suppress(OSError):
                self._cells.rmdir()

    def _load_intact(self, name: str) -> Cell | None:
        """The recorded cell; None if there is no readable record."""
        with contextlib.suppress(CellError):
            return self.load(name)
        return None

    def _build(
        self,
        spec: CellSpec,
        say: Callable[[str], None],
        additions: NodeAdditions,
        *,
        temporary: bool,
    ) -> Cell:
        store = self.state / "packages"
        packages: tuple[Path, ...] = (ensure_packages(store, say),)
        if spec.ssh:
            tree = ensure_private_packages(store, say, name="ssh", packages=ssh.PACKAGES)
            packages = (tree, *packages)
        if spec.kerberos:
            kdc = ensure_private_packages(store, say, name="kerberos", packages=kerberos.PACKAGES)
            additions = replace(additions, packages=(*additions.packages, kdc))
        directory = self._directory(spec.name)
        directory.mkdir(parents=True, mode=0o700)
        cell = Cell(spec, (), ready=False, temporary=temporary)
        self._record(cell)
        say(f"cell {spec.name}: starting {1 + spec.clients} nodes")
        for number in range(1 + spec.clients):
            plan = (
                _server_plan(directory, packages, additions)
                if number == 0
                else _client_plan(directory, packages, number, spec.cache_blocks)
            )
            if spec.ssh:
                plan = replace(plan, binds={**plan.binds, **ssh.write_accounts(plan.directory)})
            starting = StartingNode(plan)
            cell = replace(cell, nodes=(*cell.nodes, starting.node))
            self._record(cell)
            starting.proceed()
        network.prepare_server(cell.server)
        for number, client in enumerate(cell.clients, start=1):
            network.connect_client(cell.server, client, number, spec.link)
        say(f"cell {spec.name}: starting the database servers")
        server.start_databases(cell.server, with_kdc=spec.kerberos)
        say(f"cell {spec.name}: starting the fileserver")
        server.start_fileserver(cell.server)
        if cell.clients:
            say(f"cell {spec.name}: mounting {spec.clients} client(s)")
        for client in cell.clients:
            client_node.mount(client, spec.cache_blocks)
        cell = replace(cell, ready=True)
        self._record(cell)
        return cell

    def _record(self, cell: Cell) -> None:
        document = {
            "spec": asdict(cell.spec),
            "ready": cell.ready,
            "temporary": cell.temporary,
            "nodes": [
                {"name": node.name, "init": asdict(node.init), "starter": asdict(node.starter)}
                for node in cell.nodes
            ],
        }
        write_record(self._directory(cell.spec.name) / _RECORD, document)


def write_record(path: Path, document: Mapping[str, object]) -> None:
    """Write a record as JSON, atomically: a crash leaves either the old or the new one."""
    fresh = path.with_suffix(".new")
    with fresh.open("w") as file:
        json.dump(document, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)


def _size(spec: CellSpec) -> str:
    clients = "1 client" if spec.clients == 1 else f"{spec.clients} clients"
    return f"{clients} and link {spec.link or 'unlimited'}"


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise CellSpecError(
            f"cell name {name!r}: use 1 to 32 of a-z and 0-9, with hyphens between them"
        )


def _server_plan(directory: Path, packages: tuple[Path, ...], additions: NodeAdditions) -> NodePlan:
    home = directory / "server"
    server.write_cell_files(home / "etc" / "server")
    server.write_cell_files(home / "etc")
    server.write_name_files(home, "server", network.SERVER_ADDRESS)
    # bosserver warns if others can access the database directory, or cannot access the logs.
    for name, mode in (("lib", 0o755), ("lib/db", 0o700), ("lib/local", 0o700), ("log", 0o755)):
        (home / name).mkdir(mode=mode)
    binds = {
        "/etc/openafs": home / "etc",
        "/var/lib/openafs": home / "lib",
        server.LOG_DIRECTORY: home / "log",
    }
    # In memory: ext4 avoids inodes freed in the last seconds, at a cost, so that on disk one
    # measurement would slow down the next.
    return NodePlan(
        "server",
        home,
        (*additions.packages, *packages),
        binds | _common_binds(home) | dict(additions.binds),
        (server.PARTITION, *additions.memory),
    )


def _client_plan(
    directory: Path, packages: tuple[Path, ...], number: int, cache_blocks: int
) -> NodePlan:
    name = f"client{number}"
    home = directory / name
    server.write_cell_files(home / "etc")
    server.write_name_files(home, name, network.client_address(number))
    (home / "etc" / "cacheinfo").write_text(client_node.cache_info(cache_blocks))
    (home / "afs").mkdir()
    binds = {"/etc/openafs": home / "etc", client_node.MOUNT_POINT: home / "afs"}
    memory = (client_node.CACHE_DIRECTORY,)
    return NodePlan(name, home, packages, binds | _common_binds(home), memory)


def _common_binds(home: Path) -> dict[str, Path]:
    (home / "shared").mkdir(exist_ok=True)
    names = {f"/etc/{name}": home / name for name in ("hosts", "resolv.conf", "nsswitch.conf")}
    return {"/fstune": home / "shared", **names}
