"""The results of a run, and their JSON document (see ``result.schema.json``)."""

from __future__ import annotations

import platform
from dataclasses import dataclass, field

from workloads.failure import Failure
from workloads.histogram import Histogram
from workloads.phases import Phase
from workloads.spec import Spec
from workloads.version import ENGINE_VERSION, content_sha256, sources

P99_9_OPERATIONS = 10_000
"""The fewest operations for which a 99.9th percentile is reported."""


@dataclass
class OperationResult:
    """One operation's count, bytes read or written and latencies.

    ``verified_files`` and ``verified_bytes`` were compared with what had been written.
    """

    operations: int = 0
    moved_bytes: int = 0
    latency: Histogram = field(default_factory=Histogram)
    verified_files: int = 0
    verified_bytes: int = 0

    def merge(self, other: OperationResult) -> None:
        self.operations += other.operations
        self.moved_bytes += other.moved_bytes
        self.latency.merge(other.latency)
        self.verified_files += other.verified_files
        self.verified_bytes += other.verified_bytes


@dataclass(frozen=True)
class PhaseResult:
    """One phase's results by operation; ``elapsed_s`` differs from ``wall_s`` if it is paced.

    ``user_s``: processor seconds of the engine's own code on the clock, summed over all processes.
    """

    phase: Phase
    elapsed_s: float
    wall_s: float
    user_s: float
    operations: dict[str, OperationResult]


@dataclass
class ComponentResult:
    """One component's results over all its phases, by operation.

    ``asked_s`` is the intended duration of its paced operations, 0 if none is paced.
    """

    elapsed_s: float = 0.0
    wall_s: float = 0.0
    asked_s: float = 0.0
    by_operation: dict[str, OperationResult] = field(default_factory=dict)

    def add(self, name: str, result: OperationResult) -> None:
        self.by_operation.setdefault(name, OperationResult()).merge(result)

    @property
    def total(self) -> OperationResult:
        total = OperationResult()
        for each in self.by_operation.values():
            total.merge(each)
        return total


@dataclass(frozen=True)
class StageResult:
    """The results of one stage, phase by phase."""

    phases: tuple[PhaseResult, ...]
    operations_sha256: str

    @property
    def verified(self) -> dict[str, int]:
        """The numbers of files and bytes that were compared with what had been written."""
        results = [each for phase in self.phases for each in phase.operations.values()]
        return {
            "files": sum(each.verified_files for each in results),
            "bytes": sum(each.verified_bytes for each in results),
        }

    @property
    def components(self) -> dict[str, ComponentResult]:
        """The timed phases, combined by component."""
        by_name: dict[str, ComponentResult] = {}
        for each in self.phases:
            if each.phase.component is None:
                continue
            component = by_name.setdefault(each.phase.component, ComponentResult())
            component.elapsed_s += each.elapsed_s
            component.wall_s += each.wall_s
            for name, result in each.operations.items():
                component.add(name, result)
                if each.phase.rate_per_s:
                    component.asked_s += result.operations / each.phase.rate_per_s
        return by_name


@dataclass(frozen=True)
class Provenance:
    """What ran, when (UTC, ISO 8601), and the processor seconds of the engine and its workers."""

    spec: Spec
    stage: str
    run_id: str
    seed: int
    started_utc: str
    cpu_s: float


def success_document(result: StageResult, about: Provenance) -> dict[str, object]:
    """Return the document of a successful stage."""
    return {
        "ok": True,
        **_about(about),
        "components": components(result.components),
        "phases": [_phase(each) for each in result.phases],
        "operations_sha256": result.operations_sha256,
        "verified": result.verified,
    }


def failure_document(failure: Failure, about: Provenance | None = None) -> dict[str, object]:
    """Return the document of a void run or of a failed clean-up."""
    return {
        "ok": False,
        "error": {
            "kind": failure.kind,
            "operation": failure.operation,
            "path": failure.path,
            "errno": failure.errno,
            "message": failure.message,
        },
        **(_about(about) if about else {}),
    }


def cleanup_document(run_id: str, removed: bool) -> dict[str, object]:
    """Return the document of a clean-up; ``removed`` is False when there was nothing to remove."""
    return {"ok": True, "run_id": run_id, "removed": removed}


def components(by_name: dict[str, ComponentResult]) -> dict[str, object]:
    """Return the components' section of a document."""
    return {name: _component(each) for name, each in by_name.items()}


def engine_identity() -> dict[str, object]:
    """Return the engine's version and the hash of its modules."""
    return {"version": ENGINE_VERSION, "sha256": content_sha256(sources())}


def _about(about: Provenance) -> dict[str, object]:
    spec = about.spec
    return {
        "engine": engine_identity(),
        "spec": {"name": spec.name, "sha256": spec.sha256, "scaled_by": spec.scaled_by},
        "stage": about.stage,
        "run_id": about.run_id,
        "seed": about.seed,
        "python": platform.python_version(),
        "started_utc": about.started_utc,
        "cpu_s": about.cpu_s,
    }


def _component(result: ComponentResult) -> dict[str, object]:
    total = result.total
    document: dict[str, object] = {
        "elapsed_s": result.elapsed_s,
        "wall_s": result.wall_s,
        "operations": total.operations,
        "bytes": total.moved_bytes,
        "latency": _latency(total),
        "by_operation": {name: _operation(each) for name, each in result.by_operation.items()},
    }
    if result.asked_s:
        document["asked_s"] = result.asked_s
    return document


def _operation(result: OperationResult) -> dict[str, object]:
    latency = result.latency
    return {
        "operations": result.operations,
        "bytes": result.moved_bytes,
        "latency": _latency(result),
        "histogram": {
            "max_ns": latency.max_ns,
            "sum_ns": latency.sum_ns,
            "counts": {str(bucket): count for bucket, count in sorted(latency.counts.items())},
        },
    }


def _latency(result: OperationResult) -> dict[str, float]:
    if not result.operations:
        return {}
    shares = {"p50_s": 0.50, "p95_s": 0.95, "p99_s": 0.99}
    if result.operations >= P99_9_OPERATIONS:
        shares["p99_9_s"] = 0.999
    latency = {name: result.latency.quantile_ns(share) / 1e9 for name, share in shares.items()}
    mean_s = result.latency.sum_ns / result.operations / 1e9
    return {"mean_s": mean_s, **latency, "max_s": result.latency.max_ns / 1e9}


def _phase(result: PhaseResult) -> dict[str, object]:
    phase = result.phase
    role = "timed" if phase.component else "warm-up" if phase.warm_up else "set-up"
    return {
        "operation": phase.operation,
        "fileset": phase.fileset.name,
        "role": role,
        "component": phase.component,
        "elapsed_s": result.elapsed_s,
        "user_s": result.user_s,
        "operations": sum(each.operations for each in result.operations.values()),
        "bytes": sum(each.moved_bytes for each in result.operations.values()),
    }
