"""Times a short command over SSH, alternating between new and reused remote processes.

Run ``python -m bench.ssh_overhead.commands`` as root on Debian. It writes ``commands.csv`` next to
this file.
"""

from __future__ import annotations

import csv
import functools
import subprocess
import tempfile
import time
from pathlib import Path
from statistics import median

from deploy.cell import Cells, CellSpec, ssh
from deploy.cell.network import SERVER_ADDRESS
from tuner.hosts import link
from tuner.hosts.log_in import Patience, SshHost
from tuner.hosts.ssh import SshConnector

_HERE = Path(__file__).parent
_CELL = "commands"
_TURNS, _EACH = 10, 20
_IDLE_LIMIT = link._MOST_IDLE


def _seconds(connector: SshConnector) -> float:
    began = time.monotonic()
    connector.run(["true"])
    return time.monotonic() - began


def main() -> None:
    """Measure, print, and write the file."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as scratch:
        directory = Path(scratch)
        cells = Cells(directory / "state")
        try:
            cell = cells.up(CellSpec(_CELL, clients=1, ssh=True))
            make = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(directory / "key")]
            subprocess.run(make, check=True)
            public = ssh.start(cell.server, (directory / "key.pub").read_text())
            known_hosts = directory / "known_hosts"
            known_hosts.write_text(f"{SERVER_ADDRESS} {public}\n")
            opener = functools.partial(ssh.connect_from, cell.clients[0])
            rows = []
            for user in ("root", ssh.OPERATOR):
                host = SshHost(
                    SERVER_ADDRESS,
                    user,
                    key_file=directory / "key",
                    agent=False,
                    known_hosts=known_hosts,
                    sudo=user != "root",
                )
                with SshConnector(host, Patience(), opener) as connector:
                    for turn in range(2 * _TURNS):
                        link._MOST_IDLE = _IDLE_LIMIT * (turn % 2)
                        connector._link._close_idle()
                        connector.run(["true"])
                        times = [_seconds(connector) for _ in range(_EACH)]
                        rows += [(user, bool(turn % 2), f"{each:.5f}") for each in times]
        finally:
            cells.down(_CELL)
    with (_HERE / "commands.csv").open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([("user", "kept", "seconds"), *rows])
    for user in ("root", ssh.OPERATOR):
        new_ms, reused_ms = (
            1000 * median(float(s) for u, k, s in rows if (u, k) == (user, which))
            for which in (False, True)
        )
        print(
            f"{user}: {new_ms:.1f} ms anew, {reused_ms:.1f} ms kept, ratio {new_ms / reused_ms:.1f}"
        )


if __name__ == "__main__":
    main()
