"""Runs the same small campaign on the same hosts, alternately over SSH and by entering namespaces.

Run ``python -m bench.ssh_overhead [ROUNDS]`` as root on Debian, or ``python -m bench.ssh_overhead
quickstart`` for one campaign each way that differs from the quickstart's only in length; it fetches
OpenAFS and OpenSSH into a temporary directory. By SSH, fstune runs in the network namespace of
another node and logs in as a user with sudo, as it would on an administrator's machine.
"""

from __future__ import annotations

import csv
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import yaml

from deploy.cell import Cell, Cells, CellSpec, ssh
from deploy.cell.client import VOLUME_PATH
from deploy.cell.network import SERVER_ADDRESS, client_address
from deploy.cell.server import VOLUME
from tuner.store import Store

_HERE = Path(__file__).parent
_CELL = "overhead"
_WAYS = ("netns", "ssh")
#: Number of measurements in the quickstart on two cores.
_QUICKSTART = 79
_FIELDS = ("round", "reach", "measurements", "wall_s", "testbed_s", "apply_s", "workload_s")

#: Like the quickstart, but limited to a number of measurements and to one trial, which is
#: certified, so that both ways do the same work.
_CAMPAIGN: Mapping[str, Any] = {
    "name": "overhead",
    "testbed": {"hosts": "testbed.yaml"},
    "spaces": {
        "fileserver": {"name": "openafs-fileserver-1.8", "only": ["threads"]},
        "cache_manager": {"name": "openafs-cache-manager-fuse-1.8", "only": ["daemons"]},
    },
    "workload": "mixed-use",
    "pilot": {"blocks": 0},
    "search": {"arms": 1, "blocks_per_trial": 3, "max_trials": 1},
    "budget": {"wall_time": "1h", "measurements": 8},
    "certification": {"blocks": 3, "share": "20%"},
    "first": [{"fileserver.threads": 64}],
    "seed": 1,
}


def _quickstart() -> dict[str, Any]:
    """Return the quickstart's campaign on hosts.

    It is limited by measurements, so that both ways do the same work.
    """
    campaign = yaml.safe_load((_HERE.parents[1] / "deploy" / "quickstart.yaml").read_text())
    budget = {"wall_time": "1h", "measurements": _QUICKSTART}
    return {**campaign, "testbed": _CAMPAIGN["testbed"], "budget": budget}


@dataclass(frozen=True)
class Place:
    """A cell with a server, a client and a desk, and a directory for files."""

    cell: Cell
    state: Path
    directory: Path
    campaign: Mapping[str, Any]

    def reach(self, way: str, node: str, address: str) -> dict[str, Any]:
        """Return the ``reach`` section of a testbed file for a host."""
        if way == "netns":
            return {"netns": {"cell": _CELL, "node": node}}
        words = {"address": address, "user": ssh.OPERATOR, "key": "key", "agent": False}
        return {"ssh": {**words, "known_hosts": "known_hosts"}}

    def write(self, way: str) -> None:
        """Write the campaign and testbed files."""
        server, client = self.cell.server.name, self.cell.clients[0].name
        testbed = {
            "name": "overhead",
            "path": VOLUME_PATH,
            "server": {
                "reach": self.reach(way, server, SERVER_ADDRESS),
                "address": SERVER_ADDRESS,
                "volumes": [VOLUME],
                "other_volumes": ["root.afs", "root.cell"],
            },
            "clients": [
                {
                    "name": "c1",
                    "reach": self.reach(way, client, client_address(1)),
                    "control": {"fuse": {}},
                }
            ],
            "other_clients": [client_address(2)],
        }
        for name, content in (("testbed", testbed), ("campaign", dict(self.campaign))):
            text = yaml.safe_dump(content, sort_keys=False)
            (self.directory / f"{name}.yaml").write_text(text)

    def measure(self, way: str) -> dict[str, Any]:
        """Run the campaign; return a breakdown of its time."""
        self.write(way)
        command = [sys.executable, "-c", "from tuner.cli import main; main()"]
        command += ["run", str(self.directory / "campaign.yaml")]
        if way == "ssh":
            desk = self.cell.clients[-1].init.pid
            command = ["nsenter", f"--target={desk}", "--net", "--", *command]
        environment = os.environ | {"FSTUNE_STATE_DIR": str(self.state)}
        result = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False
        )
        if result.returncode != 0:
            raise SystemExit(f"{way}: {result.stdout}{result.stderr}")
        with Store.open(self.state) as store:
            campaign = store.campaign("last")
            blocks = store.blocks(campaign.id)
        use = campaign.time_use
        count = sum(len(block.measurements) for block in blocks)
        times = (use.wall_s, use.testbed_s, use.apply_s, use.workload_s)
        return dict(zip(_FIELDS[2:], (count, *(round(t, 2) for t in times)), strict=True))


def _log_in(cell: Cell, directory: Path) -> None:
    """Start SSH servers, and create the keys and known hosts for logging in."""
    make = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(directory / "key")]
    subprocess.run(make, check=True)
    public = (directory / "key.pub").read_text()
    hosts = zip((SERVER_ADDRESS, client_address(1)), cell.nodes, strict=False)
    lines = [f"{address} {ssh.start(node, public)}\n" for address, node in hosts]
    (directory / "known_hosts").write_text("".join(lines))


def main(rounds: int, campaign: Mapping[str, Any], file: Path) -> None:
    """Measure, print, and write the results to a file."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as scratch:
        directory = Path(scratch)
        state = directory / "state"
        state.mkdir()
        cells = Cells(state)
        try:
            cell = cells.up(CellSpec(_CELL, clients=2, link="1gbit", ssh=True))
            _log_in(cell, directory)
            rows = _rounds(Place(cell, state, directory, campaign), rounds)
        finally:
            cells.down(_CELL)
    with file.open("w", newline="") as results:
        writer = csv.DictWriter(results, _FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    each = {way: median(map(_each_s, (r for r in rows if r["reach"] == way))) for way in _WAYS}
    ends = {way: median(float(r["testbed_s"]) for r in rows if r["reach"] == way) for way in _WAYS}
    netns, by_ssh = (each[way] for way in _WAYS)
    print(f"a measurement: {netns:.2f} and {by_ssh:.2f} s, {by_ssh / netns - 1.0:+.1%}")
    print(f"beginning and end of a campaign: {ends['netns']:.1f} and {ends['ssh']:.1f} s")
    long, by_ssh = (ends[way] + _QUICKSTART * each[way] for way in _WAYS)
    print(f"so a campaign of {_QUICKSTART} measurements: {long:.0f} and {by_ssh:.0f} s, ", end="")
    print(f"a ratio of {by_ssh / long:.3f}")


def _each_s(row: Mapping[str, Any]) -> float:
    """Return the wall time per measurement, including restarts and everything else it needs."""
    return float((row["wall_s"] - row["testbed_s"]) / row["measurements"])


def _rounds(place: Place, rounds: int) -> list[dict[str, Any]]:
    rows = []
    for turn in range(rounds):
        for way in _WAYS if turn % 2 == 0 else _WAYS[::-1]:
            rows.append({"round": turn, "reach": way, **place.measure(way)})
            print(*rows[-1].values(), flush=True)
    return rows


if __name__ == "__main__":
    if sys.argv[1:] == ["quickstart"]:
        main(1, _quickstart(), _HERE / "quickstart.csv")
    else:
        main(int(sys.argv[1]) if sys.argv[1:] else 3, _CAMPAIGN, _HERE / "results.csv")
