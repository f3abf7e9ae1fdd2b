"""What the counters prove of a run: that cold reads were cold, that written data was stored. Pure.

A client with an empty cache must fetch every byte that it reads for the first time; a stage that
fetched less has read from a cache. What is fetched besides (directories, data read again after its
eviction) is counted along: as many bytes as that may come from a warm cache unnoticed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import StrEnum

from workloads import Spec
from workloads.phases import Phase
from workloads.plan import plan_stage

#: Key of what phases without a component read.
UNTIMED = ""

_READING = ("read", "next-read", "random-read")
_LOOKING = ("stat", "negative-stat", "access", "chmod", "flock", "list", "walk", "fsync")
#: Part of the bytes that may be lacking: counters of several clients are not read at one moment.
_TOLERANCE = 0.02
#: What each counter in KiB may lack.
_ROUNDING_BYTES = 2048.0


class Proof(StrEnum):
    """What the counters say; ``UNKNOWN`` when nobody counted, or when they allow both."""

    PROVEN = "proven"
    REFUTED = "refuted"
    UNKNOWN = "unknown"


def first_reads(spec: Spec, stage: str, seeds: Sequence[int]) -> dict[str, int]:
    """Bytes that a stage reads for the first time and has not written itself, by component
    (``UNTIMED`` for the others), summed over the clients' seeds. At least so many: of random reads
    those before the furthest one of a file are not counted.
    """
    first: dict[str, int] = {}
    index, once = spec.stage_index(stage), _once(spec)
    for seed in seeds:
        furthest: dict[str, float] = {}
        for planned in plan_stage(once, index, seed).phases:
            component = planned.phase.component or UNTIMED
            for step in (step for share in planned.steps for step in share):
                if step.operation in _READING:
                    end = furthest.get(step.path, 0)
                    if step.end > end:
                        new = step.end - max(step.start, int(end))
                        first[component] = first.get(component, 0) + new
                        furthest[step.path] = step.end
                elif step.operation not in _LOOKING:
                    furthest[step.path] = math.inf  # its own data, or nothing any more
                    furthest[step.target] = math.inf
    return first


def _once(spec: Spec) -> Spec:
    """The same without the passes that read nothing for the first time: most of what there is to
    plan.
    """

    def phase(of: Phase) -> Phase:
        return replace(of, passes=1) if of.operation in (*_LOOKING, "read") else of

    return replace(
        spec,
        stages=tuple(replace(each, phases=tuple(map(phase, each.phases))) for each in spec.stages),
    )


def cold_proofs(
    needed_bytes: Mapping[str, int], fetched_bytes: float | None, clients: int = 1
) -> dict[str, Proof]:
    """Whether each component of a stage read from a cold cache. ``needed_bytes``: see
    ``first_reads``; ``fetched_bytes``: by all clients during the stage, None when nobody counted.

    What is lacking may be lacking of any component. So a component is proven when that is next to
    nothing of its own bytes, and refuted when it is more than that of the whole stage too.
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
    """Whether all that the workload wrote was stored while it ran; ``stored_bytes`` as counted."""
    if stored_bytes is None:
        return Proof.UNKNOWN
    lacking = written_bytes - stored_bytes
    return Proof.PROVEN if lacking <= _allowed(written_bytes, clients) else Proof.REFUTED


def _allowed(amount_bytes: float, clients: int) -> float:
    return _TOLERANCE * amount_bytes + _ROUNDING_BYTES * clients
