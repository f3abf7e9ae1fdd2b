"""References: paths that are not tuned, measured with the same workload as the tuned one.

Owns the requirements on such a path, and how its cold reads are made cold: only the contents of the
run's own files are dropped from the client's page cache, never the caches of the whole host.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tuner.errors import SpecError, WorkloadError
from tuner.hosts.connector import CommandTimeout, Connector, check, understood
from tuner.hosts.conversation import SpeakingConnector
from tuner.identifiers import word
from tuner.measure.driver import ClientEngine
from tuner.measure.workload import Workload
from tuner.model import PageCache

_UNCACHE = Path(__file__).with_name("uncache.py")
_UNCACHE_TIMEOUT_S = 300.0


@dataclass(frozen=True, slots=True)
class ReferencePlan:
    """A reference as requested. ``name``: in reports; ``path``: its directory on the client;
    ``every``: it is measured in every Nth block.
    """

    name: str
    path: str
    every: int = 1


@dataclass(frozen=True, slots=True)
class ReferencePath:
    """A reference on a client host. Create one with ``install``."""

    plan: ReferencePlan
    engine: ClientEngine

    @classmethod
    def install(
        cls,
        client: SpeakingConnector,
        directory: str,
        tuned: str,
        plan: ReferencePlan,
        workload: Workload,
    ) -> ReferencePath:
        """Copy the required files to ``directory`` on the client. ``tuned``: the tuned path there.

        Raises SpecError when the path is missing, is not writable or is itself tuned.
        """
        _check_path(client, tuned, plan)
        client.put(f"{directory}/uncache.py", _UNCACHE.read_bytes())
        return cls(plan, ClientEngine.install(client, directory, plan.path, workload))

    def make_cold(self, run_id: str) -> PageCache:
        """Drop the pages of a run's files; returns whether they were dropped. Raises
        WorkloadError.
        """
        program = f"{self.engine.directory}/uncache.py"
        command = ["python3", program, f"{self.plan.path}/fstune-{word(run_id, 'run')}"]
        try:
            result = self.engine.client.change(command, timeout_s=_UNCACHE_TIMEOUT_S)
        except CommandTimeout as problem:
            raise WorkloadError(f"its page cache cannot be dropped: {problem}") from problem
        if result.status != 0:
            raise WorkloadError(f"its page cache cannot be dropped: {result.tail}")
        with understood(self.engine.client.host):
            resident = int(json.loads(result.stdout)["resident_bytes"])
        return PageCache.NOT_CONTROLLABLE if resident else PageCache.DROPPED


def install_references(
    client: SpeakingConnector,
    directory: str,
    tuned: str,
    plans: Sequence[ReferencePlan],
    workload: Workload,
) -> tuple[ReferencePath, ...]:
    """Install all references of a testbed on one client; see ``ReferencePath.install``."""
    return tuple(ReferencePath.install(client, directory, tuned, plan, workload) for plan in plans)


def _check_path(client: Connector, tuned: str, plan: ReferencePlan) -> None:
    where = f"references: {plan.name}: {plan.path} on {client.host}"
    result = client.ask(["stat", "--dereference", "--format=%d %F", "--", plan.path])
    if result.status != 0:
        raise SpecError(f"{where}: {result.tail}; make the directory, or name another")
    device, _, kind = result.stdout.strip().partition(" ")
    if kind != "directory":
        raise SpecError(f"{where} is not a directory but a {kind}")
    # Compares devices, since a path can lead elsewhere through a link or bind mount.
    own = check(client, ["stat", "--dereference", "--format=%d", "--", tuned]).strip()
    if device == own:
        raise SpecError(f"{where} is on the file system that is tuned; name one that is not")
    if client.ask(["test", "-w", plan.path]).status != 0:
        raise SpecError(f"{where} cannot be written to")
