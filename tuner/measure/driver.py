"""Drives the workload engine on a client: installs it, runs its stages, reads its reports.

Owns what happens around a stage: time limits, and cleaning up after a failed run. The workload
itself is implemented by the engine (``workloads``); ``together`` runs it on several clients at
once.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tuner.errors import SpecError, TestbedError, TransportError, WorkloadError
from tuner.hosts.connector import (
    CommandResult,
    CommandTimeout,
    Connector,
    check_change,
    failure_data,
)
from tuner.hosts.conversation import SpeakingConnector
from tuner.hosts.detached import DIRECTORY as RUNS
from tuner.identifiers import word
from tuner.measure.workload import Workload
from tuner.measure.workload_run import LEFTOVERS_S, Report, StagedRun, staged_run
from tuner.model import ComponentResult
from workloads.version import content_sha256, sources
from workloads.zipapp import packed

#: Time beyond the workload's own limit after which its process is given up.
GRACE_S = 20.0
_CLEAN_TIMEOUT_S = _LIST_TIMEOUT_S = 60.0
_BY_HAND = "; remove it by hand"
_MISSING = "No such file or directory"
_END_RUNS = Path(__file__).with_name("end_runs.py")
_WORKLOAD_FAILED = 3
#: The engine's error kind for a failure at its gate (``workloads.failure``).
_NOT_LET_GO = "start-gate"
#: Operations of the engine whose bytes all count as written.
_WRITING = ("create", "rewrite", "append", "next-write", "random-write")


class NotStarted(WorkloadError):
    """The engine waited in vain for the other clients and did not start."""


@dataclass(frozen=True, slots=True)
class ClientEngine:
    """The workload engine on one client host. ``directory``: where its files are installed;
    ``target``: the directory in which it measures.
    """

    client: SpeakingConnector
    directory: str
    target: str
    workload: Workload
    sha256: str

    @classmethod
    def install(
        cls, client: SpeakingConnector, directory: str, target: str, workload: Workload
    ) -> ClientEngine:
        """Copy engine and workload spec to a client."""
        client.put(archive(directory), packed(bytecode=True), mode=0o755)
        client.put(f"{directory}/end_runs.py", _END_RUNS.read_bytes())
        client.put(f"{directory}/workload.json", workload.document)
        return cls(client, directory, target, workload, content_sha256(sources()))

    def run(self, run_id: str, seed: int) -> AbstractContextManager[StagedRun]:
        """See Engine.run. A WorkloadError has operation, path and reason."""

        def measure(stage: str, cold_before: int) -> Report:
            return self.run_stage(stage, run_id, seed)

        return staged_run(self.workload.spec.stages, measure, lambda: self.clean(run_id))

    def clean(self, run_id: str) -> None:
        """Kill a run and remove its files, if there are any; ignore errors, such as a client that
        does not answer: whoever asked for the run removes what is left (``clean_leftovers``).
        """
        with suppress(TestbedError):  # must not hide the error that made cleaning up necessary
            self.end_runs(run_id)
            self.remove(run_id)

    def remove(self, run_id: str, timeout_s: float = _CLEAN_TIMEOUT_S) -> None:
        """Remove the files of a run, if there are any. Raises TestbedError, which names them."""
        argv = [*self._command("clean"), "--dir", self.target, "--run-id", word(run_id, "run")]
        where = self._files_of(run_id)
        try:
            result = self.client.change(argv, timeout_s=timeout_s)
        except TestbedError as problem:
            raise TestbedError(f"{where}: not removed: {problem}{_BY_HAND}") from problem
        if result.status != 0:
            message = f"{where}: not removed: {_reason(result)}{_BY_HAND}"
            raise TestbedError(message, failure_data(result))

    def end_runs(self, prefix: str) -> None:
        """Kill remaining processes of runs whose identifier begins with ``prefix``, such as a run
        whose connection was lost or whose campaign was killed. Raises TestbedError when one
        survives.
        """
        end_runs(self.client, self.directory, prefix)

    def clean_leftovers(self, prefix: str, within_s: float = LEFTOVERS_S) -> tuple[str, ...]:
        """See Engine.clean_leftovers."""
        try:
            self.end_runs(prefix)
        except TestbedError as problem:
            return (self.not_searched(prefix, problem),)
        return self.remove_leftovers(prefix, within_s)

    def remove_leftovers(self, prefix: str, within_s: float) -> tuple[str, ...]:
        """As ``clean_leftovers``, for runs that have ended."""
        deadline = time.monotonic() + within_s
        argv = ["env", "LC_ALL=C", "ls", "-1A", "--", self.target]
        try:
            listing = self.client.ask(argv, timeout_s=min(within_s, _LIST_TIMEOUT_S))
        except TestbedError as problem:
            return (self.not_searched(prefix, problem),)
        left: list[str] = []
        # Without the directory, no run has ever begun in it.
        if listing.status != 0 and not listing.stderr.strip().endswith(_MISSING):
            left.append(self.not_searched(prefix, listing.tail))
        for run_id in _run_ids(listing.stdout, prefix):
            remaining_s = deadline - time.monotonic()
            if remaining_s <= 0.0:
                left.append(f"{self._files_of(run_id)}: not removed for lack of time{_BY_HAND}")
                continue
            try:
                self.remove(run_id, remaining_s)
            except TestbedError as problem:
                left.append(str(problem))
                if isinstance(problem.__cause__, TransportError):
                    deadline = 0.0  # the others would not be removed either
        return tuple(left)

    def _files_of(self, run_id: str) -> str:
        return f"{self.client.host}: {self.target}/fstune-{run_id}"

    def not_searched(self, prefix: str, why: object) -> str:
        """Return a sentence on files of runs that may be left, but were not looked for."""
        return (
            f"{self.client.host}: {self.target}: not searched for what runs have left: {why}; "
            f"remove fstune-{prefix}* there by hand"
        )

    def run_stage(self, stage: str, run_id: str, seed: int) -> Report:
        """Run one stage. Raises WorkloadError; its files are not removed."""
        index = self.workload.spec.stage_index(stage)
        limit_s = self.workload.spec.stages[index].wall_clock_limit_s + GRACE_S
        command = self.command(stage, run_id, seed)
        try:
            result = self.client.run_long(
                command, run_id=f"{run_id}-stage{index + 1}", timeout_s=limit_s
            )
        except CommandTimeout as problem:
            raise WorkloadError(f"stage {stage}: not finished within {limit_s:g} s") from problem
        return read_report(result, stage)

    def command(self, stage: str, run_id: str, seed: int) -> list[str]:
        """The command that runs one stage on the client."""
        command = [*self._command("run"), f"{self.directory}/workload.json", "--dir", self.target]
        return [*command, "--run-id", word(run_id, "run"), "--seed", str(seed), "--stage", stage]

    def _command(self, verb: str) -> list[str]:
        return ["python3", archive(self.directory), verb]


def archive(directory: str) -> str:
    """The engine that is installed in a directory of a client; every process of a run names it."""
    return f"{directory}/workloads.pyz"


def end_runs(client: Connector, directory: str, prefix: str) -> None:
    """See ``ClientEngine.end_runs``; ``directory``: where the engine is installed."""
    program = f"{directory}/end_runs.py"
    argv = ["python3", program, archive(directory), word(prefix, "run"), RUNS]
    check_change(client, argv)


def read_report(result: CommandResult, stage: str) -> Report:
    """Parse the engine's report of one stage. Raises WorkloadError when the stage failed or there
    is no report.
    """
    return report_of(read_document(result, stage), stage)


def read_document(result: CommandResult, stage: str) -> dict[str, Any]:
    """Parse the engine's JSON document of a successful stage. Raises WorkloadError."""
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
    kind = NotStarted if error["kind"] == _NOT_LET_GO else WorkloadError
    raise kind(f"stage {stage}: {what}", failure_data(result))


def _reason(result: CommandResult) -> str:
    """Return why the engine did not clean up."""
    try:
        error = json.loads(result.stdout)["error"]
        return f"{error['path']}: {error['message']}"
    except (ValueError, KeyError, TypeError):
        return result.tail


def report_of(document: Mapping[str, Any], stage: str) -> Report:
    """Convert a document to a report. Raises WorkloadError when it is malformed."""
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


def _run_ids(listing: str, prefix: str) -> Iterator[str]:
    """Yield the identifiers of the runs whose files are in a directory. ``listing``: its names."""
    # The hidden ones were being created or removed when their run was killed.
    for name in sorted({name.removeprefix(".") for name in listing.split()}):
        run_id = name.removeprefix("fstune-")
        if run_id != name and run_id.startswith(prefix):
            with suppress(SpecError):  # no run has such an identifier: somebody else made it
                yield word(run_id, "run")
