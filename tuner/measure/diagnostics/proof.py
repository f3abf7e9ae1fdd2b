"""Proofs from counters: that cold reads were cold, that written data was stored, and by the server
that is tuned. Pure.

A client with an empty cache must fetch every byte that it reads for the first time; a stage that
fetched less has read from a cache. The counters also include other fetches (directories, data read
again after eviction), so as many bytes as those may come from a warm cache undetected.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import StrEnum

from workloads import Spec
from workloads.phases import Phase
from workloads.plan import plan_stage

#: Key for bytes read by phases without a component.
UNTIMED = ""

_READING = ("read", "next-read", "random-read")
_CHANGING = (
    "mkdir",
    "create",
    "rewrite",
    "append",
    "truncate",
    "link",
    "rename",
    "unlink",
    "rmdir",
)
_LOOKING = ("stat", "negative-stat", "access", "chmod", "flock", "list", "walk", "fsync")
#: Share of the bytes that may be missing: clients' counters are not read at the same instant.
_TOLERANCE = 0.02
#: Rounding error of each counter in KiB.
_ROUNDING_BYTES = 2048.0
#: The server that is used stores more than this share, even if part of it arrives late.
_LEAST_SHARE = 0.1


class Proof(StrEnum):
    """Result of a proof; ``UNKNOWN`` without counters, or when they are inconclusive."""

    PROVEN = "proven"
    REFUTED = "refuted"
    UNKNOWN = "unknown"


def first_reads(spec: Spec, stage: str, seeds: Sequence[int]) -> dict[str, int]:
    """Bytes that a stage reads for the first time and has not written itself, by component
    (``UNTIMED`` for phases without one), summed over the clients' seeds. A lower bound: random
    reads that lie before the furthest earlier read of the same file are not counted.
    """
    first: dict[str, int] = {}
    index = spec.stage_index(stage)
    relevant = _relevant(spec, index)
    for seed in seeds:
        furthest: dict[str, float] = {}
        for planned in plan_stage(relevant, index, seed).phases:
            component = planned.phase.component or UNTIMED
            for step in (step for share in planned.steps for step in share):
                if step.operation in _READING:
                    end = furthest.get(step.path, 0)
                    if step.end > end:
                        new = step.end - max(step.start, int(end))
                        first[component] = first.get(component, 0) + new
                        furthest[step.path] = step.end
                elif step.operation not in _LOOKING:
                    furthest[step.path] = math.inf  # data written by the stage itself, or removed
                    furthest[step.target] = math.inf
    return first


def _relevant(spec: Spec, index: int) -> Spec:
    """The same spec without what can be left out of planning up to stage ``index``, which is most
    of the work: passes that read nothing for the first time, and phases after the last reading one.
    """
    stage = spec.stages[index]
    reading = [n for n, phase in enumerate(stage.phases) if phase.operation not in _CHANGING]
    last = max(reading, default=-1)

    def phase(of: Phase, *, measured: bool) -> Phase:
        passes = {"read": int(measured), **dict.fromkeys(_LOOKING, 0)}
        return replace(of, passes=passes.get(of.operation, of.passes))

    stages = [
        replace(each, phases=tuple(phase(of, measured=False) for of in each.phases))
        for each in spec.stages[:index]
    ]
    phases = tuple(phase(of, measured=True) for of in stage.phases[: last + 1])
    return replace(spec, stages=(*stages, replace(stage, phases=phases)))


def cold_proofs(
    needed_bytes: Mapping[str, int], fetched_bytes: float | None, clients: int = 1
) -> dict[str, Proof]:
    """Whether each component of a stage read from a cold cache. ``needed_bytes``: see
    ``first_reads``; ``fetched_bytes``: by all clients during the stage, None when unknown.

    The missing bytes may belong to any component. A component is therefore proven when they are
    within the tolerance for its own bytes, and refuted when they also exceed the tolerance for the
    whole stage.
    """
    if fetched_bytes is None:
        return {name: Proof.UNKNOWN for name in needed_bytes if name != UNTIMED}
    total = sum(needed_bytes.values())
    lacking = max(0.0, total - fetched_bytes)

    def proof(own: int) -> Proof:
        if lacking <= _allowed(own, clients):
            return Proof.PROVEN
        return Proof.UNKNOWN if lacking <= _allowed(total, clients) else Proof.REFUTED

    return {name: proof(own) for name, own in needed_bytes.items() if name != UNTIMED}


def stored_proof(written_bytes: float, stored_bytes: float | None, clients: int = 1) -> Proof:
    """Whether everything that the workload wrote was stored while it ran. ``stored_bytes``: as
    counted, None when unknown.
    """
    if stored_bytes is None:
        return Proof.UNKNOWN
    lacking = written_bytes - stored_bytes
    return Proof.PROVEN if lacking <= _allowed(written_bytes, clients) else Proof.REFUTED


def stored_elsewhere(
    written_bytes: float, stored_bytes: float | None, arrived_bytes: float | None, clients: int = 1
) -> bool:
    """Whether clients stored what the workload wrote on another server than the one that is tuned.
    ``stored_bytes``: by the clients, which may also store something else; ``arrived_bytes``: at
    that server; None when unknown.
    """
    if stored_bytes is None or arrived_bytes is None:
        return False
    ours = min(written_bytes, stored_bytes)
    return arrived_bytes + _ROUNDING_BYTES * clients < _LEAST_SHARE * ours


def _allowed(amount_bytes: float, clients: int) -> float:
    return _TOLERANCE * amount_bytes + _ROUNDING_BYTES * clients
