"""What a run measured, and the one JSON document it becomes (see ``result.schema.json``)."""

from __future__ import annotations

import platform
from dataclasses import dataclass, field

from workloads.failure import Failure
from workloads.histogram import Histogram
from workloads.spec import Spec
from workloads.version import ENGINE_VERSION, content_sha256, sources

P99_9_OPERATIONS = 10_000
"""Fewer operations than this say nothing about the slowest in a thousand."""


@dataclass
class ComponentResult:
    """One component's numbers: wall time, operations, bytes read or written, latencies."""

    elapsed_s: float = 0.0
    operations: int = 0
    moved_bytes: int = 0
    latency: Histogram = field(default_factory=Histogram)


@dataclass(frozen=True)
class StageResult:
    """What one stage measured, by component, and what was compared with what had been written."""

    components: dict[str, ComponentResult]
    operations_sha256: str
    verified_files: int
    verified_bytes: int


@dataclass(frozen=True)
class Provenance:
    """What ran, when (UTC, ISO 8601), and the processor seconds of the engine itself."""

    spec: Spec
    stage: str
    run_id: str
    seed: int
    started_utc: str
    cpu_s: float


def success(result: StageResult, about: Provenance) -> dict[str, object]:
    """Return the document of a stage that is to be counted."""
    return {
        "ok": True,
        **_about(about),
        "components": {name: _component(found) for name, found in result.components.items()},
        "operations_sha256": result.operations_sha256,
        "verified": {"files": result.verified_files, "bytes": result.verified_bytes},
    }


def failed(failure: Failure, about: Provenance | None = None) -> dict[str, object]:
    """Return the document of a run that is void, or of a clean-up that failed."""
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


def cleaned(run_id: str, removed: bool) -> dict[str, object]:
    """Return the document of a clean-up; ``removed`` is False when there was nothing to remove."""
    return {"ok": True, "run_id": run_id, "removed": removed}


def _about(about: Provenance) -> dict[str, object]:
    return {
        "engine": {"version": ENGINE_VERSION, "sha256": content_sha256(sources())},
        "spec": {"name": about.spec.name, "sha256": about.spec.sha256},
        "stage": about.stage,
        "run_id": about.run_id,
        "seed": about.seed,
        "python": platform.python_version(),
        "started_utc": about.started_utc,
        "cpu_s": about.cpu_s,
    }


def _component(found: ComponentResult) -> dict[str, object]:
    shares = {"p50_s": 0.50, "p95_s": 0.95, "p99_s": 0.99}
    if found.operations >= P99_9_OPERATIONS:
        shares["p99_9_s"] = 0.999
    latency = {name: found.latency.quantile_ns(share) / 1e9 for name, share in shares.items()}
    return {
        "elapsed_s": found.elapsed_s,
        "operations": found.operations,
        "bytes": found.moved_bytes,
        "latency": {**latency, "max_s": found.latency.max_ns / 1e9},
    }
