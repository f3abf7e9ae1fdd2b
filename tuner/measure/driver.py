"""Drives the workload engine on a client: ships it, runs its stages, reads its reports.

Owns what happens around a run: caches made cold where a stage needs it, time limits, cleaning up
after a run that failed. What the workload does is the engine's matter (``workloads``); several
clients at once are that of ``together``.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tuner.errors import TestbedError, WorkloadError
from tuner.hosts.connector import CommandResult, CommandTimeout, check_change, failure_data
from tuner.hosts.conversation import SpeakingConnector
from tuner.identifiers import word
from tuner.measure.workload import Workload
from tuner.model import ComponentResult
from workloads import Spec
from workloads.zipapp import build

#: Time beyond the workload's own limit before its process is given up.
GRACE_S = 20.0
_CLEAN_TIMEOUT_S = 60.0
_END_RUNS = Path(__file__).with_name("end_runs.py")
_WORKLOAD_FAILED = 3
#: The engine's word for a failure at its gate (``workloads.failure``).
_NOT_LET_GO = "start-gate"
#: Operations of the engine all of whose bytes are written.
_WRITING = ("create", "rewrite", "append", "next-write", "random-write")


class NotLetGo(WorkloadError):
    """The engine waited in vain for the other clients, and did nothing."""


@dataclass(frozen=True, slots=True)
class Report:
    """A whole run: every component once. ``cpu_s``: processor time of the engine itself.

    ``clients``: the components of each client by its host, when several ran the workload; they are
    put together in ``components``. ``written_bytes``: what the timed operations wrote, at least.
    ``counted``: diagnostics that came with the report, of an engine that has nothing to watch.
    """

    components: Mapping[str, ComponentResult]
    cpu_s: float
    engine_sha256: str
    clients: Mapping[str, Mapping[str, ComponentResult]] = field(default_factory=dict)
    written_bytes: int = 0
    counted: Mapping[str, float | str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Engine:
    """The workload engine on one client host. ``directory`` there holds its files, ``target`` is
    measured.
    """

    client: SpeakingConnector
    directory: str
    target: str
    workload: Workload
    sha256: str

    @classmethod
    def install(
        cls, client: SpeakingConnector, directory: str, target: str, workload: Workload
    ) -> Engine:
        """Ship engine and spec to a client."""
        with tempfile.TemporaryDirectory() as scratch:
            archive = build(Path(scratch) / "workloads.pyz")
            client.put(f"{directory}/workloads.pyz", archive.path.read_bytes(), mode=0o755)
        client.put(f"{directory}/end_runs.py", _END_RUNS.read_bytes())
        client.put(f"{directory}/workload.json", workload.document)
        return cls(client, directory, target, workload, archive.sha256)

    def run(
        self, run_id: str, seed: int, make_cold: Callable[[], None], stage: Callable[[str], None]
    ) -> Report:
        """Run every stage once. ``make_cold`` is called where a stage needs a cold cache, ``stage``
        with the name of each one before it starts.

        Raises WorkloadError naming operation, path and reason; the run's files are removed then.
        """

        def one(name: str, cold_before: int) -> Report:
            return self.run_stage(name, run_id, seed)

        try:
            return run_stages(self.workload.spec, make_cold, stage, one)
        except BaseException:
            self.clean(run_id)
            raise

    def clean(self, run_id: str) -> None:
        """End a run and remove what it left behind, if anything; a client that does not answer is
        left alone.
        """
        with suppress(TestbedError):  # cleaning up must not hide why it became necessary
            self.end_runs(run_id)
            self.remove(run_id)

    def remove(self, run_id: str) -> None:
        """Remove what a run left behind, if anything. Raises TransportError."""
        self.client.change(
            [*self._command("clean"), "--dir", self.target, "--run-id", word(run_id, "run")],
            timeout_s=_CLEAN_TIMEOUT_S,
        )

    def end_runs(self, prefix: str) -> None:
        """End what still goes on of runs whose identifier begins with ``prefix``: of one whose
        connection was lost, or whose campaign was killed. Raises TestbedError when it does not end.
        """
        program = f"{self.directory}/end_runs.py"
        argv = ["python3", program, f"{self.directory}/workloads.pyz", word(prefix, "run")]
        check_change(self.client, argv)

    def clean_leftovers(self, prefix: str) -> None:
        """End runs whose identifier begins with ``prefix``, and remove what they left."""
        self.end_runs(prefix)
        listing = self.client.ask(["ls", "-1", self.target])
        for name in listing.stdout.split():
            run_id = name.removeprefix("fstune-")
            if run_id != name and run_id.startswith(prefix):
                with suppress(TestbedError):
                    self.remove(run_id)

    def run_stage(self, stage: str, run_id: str, seed: int) -> Report:
        """Run one stage. Raises WorkloadError; what it left behind stays."""
        limit_s = self.workload.spec.wall_clock_limit_s + GRACE_S
        number = [part.name for part in self.workload.spec.stages].index(stage) + 1
        command = self.command(stage, run_id, seed)
        try:
            result = self.client.run_long(
                command, run_id=f"{run_id}-stage{number}", timeout_s=limit_s
            )
        except CommandTimeout as problem:
            raise WorkloadError(f"stage {stage}: no end within {limit_s:g} s") from problem
        return read_report(result, stage)

    def command(self, stage: str, run_id: str, seed: int) -> list[str]:
        """The command that runs one stage on the client."""
        command = [*self._command("run"), f"{self.directory}/workload.json", "--dir", self.target]
        return [*command, "--run-id", word(run_id, "run"), "--seed", str(seed), "--stage", stage]

    def _command(self, verb: str) -> list[str]:
        return ["python3", f"{self.directory}/workloads.pyz", verb]


def run_stages(
    spec: Spec,
    make_cold: Callable[[], None],
    stage: Callable[[str], None],
    run_one: Callable[[str, int], Report],
) -> Report:
    """Run every stage of a spec by ``run_one`` (its name, the number of cold stages up to it), with
    a cold cache where it needs one; all reports put together.
    """
    components: dict[str, ComponentResult] = {}
    clients: dict[str, dict[str, ComponentResult]] = {}
    cpu_s = 0.0
    sha256 = ""
    written_bytes = 0
    cold = 0
    for part in spec.stages:
        if part.cache == "cold":
            make_cold()
            cold += 1
        stage(part.name)
        report = run_one(part.name, cold)
        components |= report.components
        for host, own in report.clients.items():
            clients.setdefault(host, {}).update(own)
        cpu_s += report.cpu_s
        sha256 = report.engine_sha256
        written_bytes += report.written_bytes
    return Report(components, cpu_s, sha256, clients, written_bytes)


def read_report(result: CommandResult, stage: str) -> Report:
    """What the engine reported of one stage. Raises WorkloadError when it failed, or said
    nothing.
    """
    return report_of(read_document(result, stage), stage)


def read_document(result: CommandResult, stage: str) -> dict[str, Any]:
    """The engine's document of a stage that is to be counted. Raises WorkloadError."""
    if result.status not in (0, _WORKLOAD_FAILED):
        message = f"stage {stage}: the engine ended with {result.status}: {result.tail}"
        raise WorkloadError(message, failure_data(result))
    try:
        document: dict[str, Any] = json.loads(result.stdout)
        if document["ok"]:
            return document
        error = document["error"]
        what = f"{error['kind']} in {error['operation']} of {error['path']}: {error['message']}"
    except (ValueError, KeyError, TypeError) as problem:
        raise _no_report(stage, result.tail) from problem
    kind = NotLetGo if error["kind"] == _NOT_LET_GO else WorkloadError
    raise kind(f"stage {stage}: {what}", failure_data(result))


def report_of(document: Mapping[str, Any], stage: str) -> Report:
    """A document as a report. Raises WorkloadError when something is missing in it."""
    try:
        sha256 = str(document["engine"]["sha256"])
        components = document["components"]
        return Report(
            _components(components),
            float(document["cpu_s"]),
            sha256,
            written_bytes=_written_bytes(components),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        raise _no_report(stage, repr(problem)) from problem


def _no_report(stage: str, message: str) -> WorkloadError:
    return WorkloadError(f"stage {stage}: no report from the engine: {message}")


def _written_bytes(components: Mapping[str, dict[str, Any]]) -> int:
    return sum(
        int(one["bytes"])
        for component in components.values()
        for operation, one in component.get("by_operation", {}).items()
        if operation in _WRITING
    )


def _components(components: Mapping[str, dict[str, Any]]) -> dict[str, ComponentResult]:
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
        for name, one in components.items()
    }
