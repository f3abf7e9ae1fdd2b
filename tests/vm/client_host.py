"""The guest's client under the control of fstune, with helpers for tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

import search_spaces
from deploy.cell.client import VOLUME_PATH
from deploy.cell.network import SERVER_ADDRESS
from deploy.vm import Guest
from tuner.hosts.connections import Hosts
from tuner.hosts.connector import CommandResult
from tuner.hosts.conversation import SpeakingConnector
from tuner.services.openafs import hosts
from tuner.services.openafs.client_runtime import ClientRuntime
from tuner.services.openafs.guest import testbed_document
from tuner.services.openafs.kernel_client import KernelClient, KernelPlace
from tuner.services.openafs.live import LiveSettings
from tuner.services.openafs.testbed_file import read_testbed

RUNTIME = search_spaces.load("openafs-client-runtime")
RESTORE = "/var/lib/fstune-restore"


@dataclass(frozen=True)
class ClientHost:
    """The client host. ``unit``: its systemd unit; ``runtime``: settings of the running client."""

    guest: Guest
    host: SpeakingConnector
    unit: KernelClient
    runtime: ClientRuntime

    def run(self, *argv: str, timeout_s: float = 120.0) -> CommandResult:
        return self.host.change(argv, timeout_s=timeout_s)

    def output(self, *argv: str) -> str:
        done = self.run(*argv)
        assert done.status == 0, (argv, done.tail)
        return done.stdout.strip()

    def file(self) -> str:
        return self.output("cat", self.unit.place.file)

    def effective(self) -> dict[str, object]:
        return dict(self.unit.effective())

    def journals(self) -> list[str]:
        """Names of open journals, without preserved copies of files changed by someone else."""
        done = self.run("ls", f"{RESTORE}/restore")
        names = done.stdout.split()
        return [name for name in names if not name.endswith(".sh") and ".changed-" not in name]

    def restore(self) -> str:
        """Restore everything. Returns a description of what was done to the client."""
        done = self.unit.restore()
        self.runtime.restore()
        return done

    @contextmanager
    def holder(self) -> Iterator[None]:
        """Run a foreign process whose working directory is in the volume."""
        self.output(
            "systemd-run", "--unit=holder", f"--working-directory={VOLUME_PATH}", "sleep", "600"
        )
        try:
            yield
        finally:
            self.run("systemctl", "stop", "holder")

    @contextmanager
    def namespace(self, propagation: str) -> Iterator[None]:
        """Run a foreign process in a mount namespace of its own. ``propagation``: see unshare."""
        ready = "/run/namespace-ready"
        inside = ["sh", "-c", f"touch {ready}; exec sleep 600"]
        apart = ["unshare", "--mount", "--propagation", propagation]
        self.output("systemd-run", "--unit=namespace", *apart, *inside)
        try:
            self.output("timeout", "30", "sh", "-c", f"until [ -e {ready} ]; do sleep 0.1; done")
            yield
        finally:
            self.run("systemctl", "stop", "namespace")
            self.run("rm", "--force", ready)


def write_changed_testbed(guest: Guest, name: str, **changes: Any) -> Path:
    """Write a changed testbed file of the guest next to the one written by ``fstune vm up``."""
    document = testbed_document(guest)
    path = guest.cell_directory / f"{name}.yaml"
    path.write_text(yaml.safe_dump(document | changes))
    return path


@contextmanager
def client_host(guest: Guest, state: Path) -> Iterator[ClientHost]:
    """Attach to the guest's client in its current state, and restore it in any case."""
    path = write_changed_testbed(guest, "client-host")
    file = read_testbed(path)
    with closing(Hosts(file, path.parent, state)) as connections:
        host = connections.clients[0]
        place = hosts.client_place(file, file.clients[0])
        assert isinstance(place, KernelPlace)
        unit = KernelClient.attach(host, place)
        unit.live = LiveSettings.attach(
            host, RUNTIME, unit.tokens, (place.directory, SERVER_ADDRESS, VOLUME_PATH)
        )
        client = ClientHost(guest, host, unit, ClientRuntime.attach([unit.live], RUNTIME))
        try:
            yield client
        finally:
            client.restore()
