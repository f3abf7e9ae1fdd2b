"""Hosts over SSH as in an administrator's setup: a fileserver, two clients, and a desk.

The desk is the machine on which fstune runs. All are nodes of a private cell, but fstune sees none
of that.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from deploy.cell import Cell, Cells, CellSpec, Node, ssh
from deploy.cell.client import VOLUME_PATH
from deploy.cell.network import SERVER_ADDRESS, client_address
from deploy.cell.server import VOLUME
from tests.acceptance.files import FSTUNE, careless_space
from tests.acceptance.processes import command_line, inside, processes
from tuner.model import Block, Campaign, Event, Trial
from tuner.store import Store

RESTORE = "/var/lib/fstune-restore"
#: Several processes may run tests concurrently; each has its own hosts.
CELL = "hosts" + os.environ.get("PYTEST_XDIST_WORKER", "")
#: Size of their clients' caches: each restart opens every file of a cache.
CACHE_BLOCKS = 20_000
_PATIENCE_S = 240.0
_WORKLOAD = Path(__file__).parents[1] / "data" / "small-workload.yaml"


def make_key(path: Path) -> Path:
    command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)]
    subprocess.run(command, check=True)
    return path


@dataclass(frozen=True)
class Records:
    """A campaign's records in its database."""

    campaign: Campaign
    trials: list[Trial]
    blocks: list[Block]
    events: list[Event]

    def of(self, kind: str) -> list[Event]:
        return [event for event in self.events if event.kind == kind]

    @property
    def measured(self) -> dict[tuple[int, int], object]:
        return {(b.number, m.trial): m for b in self.blocks for m in b.measurements}


@dataclass(frozen=True)
class Lab:
    """The hosts, and a directory with keys, files and a state directory.

    ``original``: the command lines of the programs before any campaign, by node.
    """

    cell: Cell
    directory: Path
    original: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def server(self) -> Node:
        return self.cell.server

    @property
    def clients(self) -> tuple[Node, ...]:
        """The clients of the testbed."""
        return self.cell.clients[:-1]

    @property
    def desk(self) -> Node:
        """The machine on which fstune runs, which uses only this node's network."""
        return self.cell.clients[-1]

    @property
    def state(self) -> Path:
        return self.directory / "state"

    def testbed(self, after: str = "90s", clients: int = 2, **ssh_words: object) -> Path:
        """Write a testbed file.

        With ``after`` below 100 s, hosts check every second whether they are still held, so that
        tests need not wait long for them.
        """

        def reach(address: str) -> dict[str, Any]:
            words = {"address": address, "user": ssh.OPERATOR, "key": "user", "agent": False}
            return {"ssh": {**words, "known_hosts": "known_hosts", **ssh_words}}

        addresses = [client_address(number) for number in range(1, len(self.cell.clients) + 1)]
        document = {
            "name": "lab",
            "path": VOLUME_PATH,
            "server": {
                "reach": reach(SERVER_ADDRESS),
                "address": SERVER_ADDRESS,
                "volumes": [VOLUME],
                "other_volumes": ["root.afs", "root.cell"],
            },
            "clients": [
                {"name": f"c{number}", "reach": reach(address), "control": {"fuse": {}}}
                for number, address in enumerate(addresses[:clients], start=1)
            ],
            "other_clients": addresses[clients:],
            "restore": {"directory": RESTORE, "after": after},
        }
        return self._write("testbed.yaml", document)

    def campaign(self, first: Sequence[dict[str, int]], blocks: int = 100) -> Path:
        """Write a campaign file for the testbed file.

        ``blocks``: the maximum of a trial; by default more than any test waits for.
        """
        self._write("space.yaml", careless_space())
        document = {
            "name": "lab",
            "testbed": {"hosts": "testbed.yaml"},
            "spaces": {
                "fileserver": {"name": "./space.yaml", "only": ["threads", "vlru_interval"]},
                "cache_manager": {"name": "openafs-cache-manager-fuse-1.8", "only": ["daemons"]},
            },
            "workload": "./workload.yaml",
            "pilot": {"blocks": 0},
            "search": {"arms": 1, "blocks_per_trial": blocks, "max_trials": 1},
            "budget": {"wall_time": "2h", "measurements": 2 * blocks + 6},
            "certification": {"blocks": 3, "share": "20%"},
            "first": list(first),
        }
        return self._write("campaign.yaml", document)

    def workload(self, linger_s: int = 0) -> None:
        """Write the workload file; ``linger_s``: extends the very short run by paced stats."""
        document = yaml.safe_load(_WORKLOAD.read_text())
        if linger_s:
            slow = {"operation": "stat", "fileset": "few", "passes": linger_s, "rate_per_s": 20}
            document["stages"][0]["phases"].append({**slow, "component": "writing"})
        self._write("workload.yaml", document)

    def _write(self, name: str, document: object) -> Path:
        path = self.directory / name
        path.write_text(yaml.safe_dump(document, sort_keys=False))
        return path

    def command(self, *arguments: str) -> list[str]:
        """Return the command line of the console script in the desk's network."""
        return ["nsenter", f"--target={self.desk.init.pid}", "--net", "--", str(FSTUNE), *arguments]

    @property
    def environment(self) -> dict[str, str]:
        return os.environ | {"FSTUNE_STATE_DIR": str(self.state), "LC_ALL": "C.UTF-8"}

    def fstune(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*arguments),
            env=self.environment,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=300,
            check=False,
        )

    @contextmanager
    def running(self, *arguments: str) -> Iterator[subprocess.Popen[str]]:
        """Run the console script; standard output and error go to one file, ``output``."""
        with (self.directory / "output").open("w") as file:
            process = subprocess.Popen(
                self.command(*arguments),
                env=self.environment,
                stdout=file,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                text=True,
            )
        try:
            yield process
        finally:
            process.kill()
            process.wait()

    @property
    def output(self) -> str:
        return (self.directory / "output").read_text()

    def load(self) -> Records:
        with Store.open(self.state) as store:
            campaign = store.campaigns()[0]  # also one that was refused before its first block
            one = campaign.id
            return Records(campaign, store.trials(one), store.blocks(one), store.events(one))

    def start_sshd(self, node: Node) -> str:
        """Start the SSH server of a host; return its public host key."""
        return ssh.start(node, (self.directory / "user.pub").read_text())

    # What is in effect on the hosts

    def programs(self) -> dict[str, tuple[str, ...]]:
        """Return the command lines of fileserver and cache managers, by node."""
        lines = {"server": command_line(self.server, "dafileserver")}
        for node in self.clients:
            lines[node.name] = command_line(node, "afsd.fuse")
        return lines

    def left(self, files: bool = True, runs: bool = True) -> list[str]:
        """Return whatever a campaign must not leave on the hosts.

        ``files``: include files in the volume; those of a run that could not be cleaned up stay
        until the campaign is resumed. ``runs``: include processes.
        """
        remaining = [] if (now := self.programs()) == self.original else [f"other programs: {now}"]
        for node in (self.server, *self.clients):
            restore = inside(node, RESTORE)
            names = ("lease", "lease.expired", "restore/cache_manager", "restore/fileserver")
            remaining += [f"{name} on {node.name}" for name in names if (restore / name).exists()]
            if runs:
                remaining += [f"{node.name}: {words}" for words in processes(node) if _ours(words)]
        for node in self.clients:
            listed = node.run(["timeout", "20", "ls", "-A", VOLUME_PATH])
            if listed.status != 0:
                remaining.append(f"{VOLUME_PATH} is not served on {node.name}")
            remaining += [
                f"{name} in the volume"
                for name in listed.stdout.decode().split()
                if files and name.removeprefix(".").startswith("fstune-")
            ]
        return remaining

    def restore(self, files: bool = True, runs: bool = True) -> None:
        """Wait until nothing is left: watches and killed runs take a moment to end."""
        deadline = time.monotonic() + _PATIENCE_S
        while left := self.left(files, runs):
            assert time.monotonic() < deadline, left
            time.sleep(0.2)


def _ours(words: list[str]) -> bool:
    suffixes = ("workloads.pyz", "watch.sh", "end_runs.py")
    return any(word.endswith(suffixes) for word in words)


@dataclass
class Labs:
    """Hosts for successive tests. ``new_directory``: creates a directory for their files."""

    cells: Cells
    new_directory: Callable[[], Path]
    _lab: Lab | None = None

    def fit(self) -> Lab:
        """Return the previous test's hosts, or new ones if it left something behind."""
        if self._lab is None or not self._lab.cell.is_alive() or self._lab.left():
            self.close()
            self._lab = bring_up(self.cells, self.new_directory())
        return self._lab

    def close(self) -> None:
        self.cells.down(CELL)


def bring_up(cells: Cells, directory: Path) -> Lab:
    """Bring the hosts up; SSH servers run on all but the desk."""
    (directory / "state").mkdir()
    cell = cells.up(CellSpec(CELL, clients=3, ssh=True, cache_blocks=CACHE_BLOCKS))
    make_key(directory / "user")
    lab = Lab(cell, directory)
    addresses = (SERVER_ADDRESS, *(client_address(n) for n in range(1, len(lab.clients) + 1)))
    nodes = (lab.server, *lab.clients)
    keys = [
        f"{address} {lab.start_sshd(node)}" for address, node in zip(addresses, nodes, strict=True)
    ]
    (directory / "known_hosts").write_text("".join(f"{line}\n" for line in keys))
    lab.workload()
    lab.original.update(lab.programs())
    return lab
