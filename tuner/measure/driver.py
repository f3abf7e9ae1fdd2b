"""Drives the workload engine on a client: ships it, runs its stages, reads its reports.

Owns what happens around a run: caches made cold where a stage needs it, time limits, cleaning up
after a run that failed. What the workload does is the engine's matter (``workloads``).
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tuner.errors import TestbedError, WorkloadError
from tuner.measure.workload import Workload
from tuner.model import ComponentResult
from tuner.testbed.connector import CommandResult, CommandTimeout, Connector
from workloads.zipapp import build

#: Time beyond the workload's own limit before its process is given up.
_GRACE_S = 20.0
_CLEAN_TIMEOUT_S = 60.0
_WORKLOAD_FAILED = 3


@dataclass(frozen=True, slots=True)
class Report:
    """A whole run: every component once. ``cpu_s``: processor time of the engine itself."""

    components: Mapping[str, ComponentResult]
    cpu_s: float
    engine_sha256: str


@dataclass(frozen=True, slots=True)
class Engine:
    """The workload engine on one client host. ``directory`` there holds its files, ``target`` is
    measured.
    """

    client: Connector
    directory: str
    target: str
    workload: Workload
    sha256: str

    @classmethod
    def install(cls, client: Connector, directory: str, target: str, workload: Workload) -> Engine:
        """Ship engine and spec to a client."""
        with tempfile.TemporaryDirectory() as scratch:
            archive = build(Path(scratch) / "workloads.pyz")
            client.put(f"{directory}/workloads.pyz", archive.path.read_bytes(), mode=0o755)
        client.put(f"{directory}/workload.json", workload.document)
        return cls(client, directory, target, workload, archive.sha256)

    def run(
        self, run_id: str, seed: int, make_cold: Callable[[], None], stage: Callable[[str], None]
    ) -> Report:
        """Run every stage once. ``make_cold`` is called where a stage needs a cold cache, ``stage``
        with the name of each one before it starts.

        Raises WorkloadError naming operation, path and reason; the run's files are removed then.
        """
        components: dict[str, ComponentResult] = {}
        cpu_s = 0.0
        try:
            for part in self.workload.spec.stages:
                if part.cache == "cold":
                    make_cold()
                stage(part.name)
                document = self._run_stage(part.name, run_id, seed)
                components |= document.components
                cpu_s += document.cpu_s
        except BaseException:
            self.clean(run_id)
            raise
        return Report(components, cpu_s, self.sha256)

    def clean(self, run_id: str) -> None:
        """Remove what a run left behind, if anything; a client that does not answer is left
        alone.
        """
        try:
            self.client.run(
                [*self._command("clean"), "--dir", self.target, "--run-id", run_id],
                timeout_s=_CLEAN_TIMEOUT_S,
            )
        except TestbedError:
            return  # cleaning up must not hide why it became necessary

    def clean_leftovers(self, prefix: str) -> None:
        """Remove what runs whose identifier begins with ``prefix`` left, for example one that was
        killed.
        """
        listing = self.client.run(["ls", "-1", self.target])
        for name in listing.stdout.split():
            run_id = name.removeprefix("fstune-")
            if run_id != name and run_id.startswith(prefix):
                self.clean(run_id)

    def _run_stage(self, stage: str, run_id: str, seed: int) -> Report:
        limit_s = self.workload.spec.wall_clock_limit_s + _GRACE_S
        command = [*self._command("run"), f"{self.directory}/workload.json", "--dir", self.target]
        command += ["--run-id", run_id, "--seed", str(seed), "--stage", stage]
        try:
            result = self.client.run(command, timeout_s=limit_s)
        except CommandTimeout as problem:
            raise WorkloadError(f"stage {stage}: no end within {limit_s:g} s") from problem
        return read_report(result, stage)

    def _command(self, verb: str) -> list[str]:
        return ["python3", f"{self.directory}/workloads.pyz", verb]


def read_report(result: CommandResult, stage: str) -> Report:
    """What the engine reported of one stage. Raises WorkloadError when it failed, or said
    nothing.
    """
    if result.status not in (0, _WORKLOAD_FAILED):
        raise WorkloadError(f"stage {stage}: the engine ended with {result.status}: {result.tail}")
    try:
        document = json.loads(result.stdout)
        if document["ok"]:
            sha256 = str(document["engine"]["sha256"])
            return Report(_components(document["components"]), float(document["cpu_s"]), sha256)
        error = document["error"]
        what = f"{error['kind']} in {error['operation']} of {error['path']}: {error['message']}"
    except (ValueError, KeyError, TypeError) as problem:
        raise WorkloadError(f"stage {stage}: no report from the engine: {result.tail}") from problem
    raise WorkloadError(f"stage {stage}: {what}")


def _components(found: Mapping[str, dict[str, Any]]) -> dict[str, ComponentResult]:
    return {
        name: ComponentResult(
            elapsed_s=float(one["elapsed_s"]),
            operations=int(one["operations"]),
            bytes=int(one["bytes"]),
            p50_s=one["latency"].get("p50_s"),
            p95_s=one["latency"].get("p95_s"),
            p99_s=one["latency"].get("p99_s"),
            max_s=one["latency"].get("max_s"),
        )
        for name, one in found.items()
    }
