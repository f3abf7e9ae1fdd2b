"""The checked, immutable form of a workload spec, and the parser that makes it from a mapping.

A spec is a list of *stages*; a stage is what runs in one invocation of the engine. A stage with
``cache: cold`` must be run by a client whose cache holds nothing from the earlier stages. A stage
is a list of *phases*, each one operation over one file set; a phase that names a ``component`` is
timed, one that does not is set-up or warm-up.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from math import fsum

from workloads.fields import Fields, SpecError
from workloads.filesets import FileSet, parse_fileset
from workloads.phases import Phase, parse_phase
from workloads.sequence import FileSetState, OutOfOrder, advance

MAX_PROCESSES = 256
MAX_CLIENTS = 1000
MAX_LIMIT_S = 86_400.0

_LEAST_LIMIT_S = 0.001

WEIGHT_FLOOR = 0.05
"""Minimum weight of a component; below it, a setting could ruin the component unnoticed."""


@dataclass(frozen=True)
class Stage:
    """What one invocation runs, in ``processes`` processes; ``cache`` is "as-is" or "cold".

    It may take ``wall_clock_limit_s``.
    """

    name: str
    cache: str
    processes: int
    wall_clock_limit_s: float
    phases: tuple[Phase, ...]


@dataclass(frozen=True)
class Component:
    """One timed number of the workload and its weight in the score (weights sum to 1)."""

    name: str
    weight: float


@dataclass(frozen=True)
class Spec:
    """A valid workload.

    ``sha256`` is the hash of the mapping's canonical JSON; ``scaled_by`` is its size relative to
    the full size. ``least_clients``: with fewer concurrent clients its results say little; this is
    for the controller, since an engine knows only its own client.
    """

    name: str
    description: str
    wall_clock_limit_s: float
    filesets: tuple[FileSet, ...]
    stages: tuple[Stage, ...]
    components: tuple[Component, ...]
    sha256: str
    scaled_by: float
    least_clients: int = 1

    def stage_index(self, name: str) -> int:
        """Return the position of the stage with that name; raises KeyError if there is none."""
        for index, stage in enumerate(self.stages):
            if stage.name == name:
                return index
        raise KeyError(name)


def parse(mapping: object) -> Spec:
    """Return the checked spec; raises SpecError naming the first offending key."""
    fields = Fields(mapping, "")
    name = fields.name("name")
    description = fields.text("description")
    processes = fields.integer("processes", 1, MAX_PROCESSES)
    limit_s = fields.number("wall_clock_limit_s", _LEAST_LIMIT_S, MAX_LIMIT_S)
    scaled_by = fields.number("scaled_by", 1e-9, 1e9, default=1.0)
    least_clients = fields.integer("least_clients", 1, MAX_CLIENTS, default=1)
    filesets = tuple(
        parse_fileset(set_name, index, Fields(value, f"filesets.{set_name}"))
        for index, (set_name, value) in enumerate(fields.mapping("filesets"))
    )
    stages = tuple(
        _stage(
            Fields(item, key), {fileset.name: fileset for fileset in filesets}, processes, limit_s
        )
        for key, item in fields.items("stages")
    )
    _check_stages(stages)
    components = _components(fields, stages)
    fields.refuse_unknown()
    return Spec(
        name,
        description,
        limit_s,
        filesets,
        stages,
        components,
        _sha256(mapping),
        scaled_by,
        least_clients,
    )


def _stage(
    fields: Fields, filesets: Mapping[str, FileSet], default: int, default_limit_s: float
) -> Stage:
    name = fields.name("name")
    cache = fields.choice("cache", ("as-is", "cold"))
    processes = fields.integer("processes", 1, MAX_PROCESSES, default=default)
    limit_s = fields.number(
        "wall_clock_limit_s", _LEAST_LIMIT_S, MAX_LIMIT_S, default=default_limit_s
    )
    phases = tuple(
        parse_phase(Fields(item, key), filesets, processes) for key, item in fields.items("phases")
    )
    fields.refuse_unknown()
    return Stage(name, cache, processes, limit_s, phases)


def _check_stages(stages: tuple[Stage, ...]) -> None:
    names: set[str] = set()
    owner: dict[str, str] = {}
    states: dict[str, FileSetState] = {}
    for number, stage in enumerate(stages):
        if stage.name in names:
            raise SpecError(f"stages[{number}].name", f"{stage.name!r} is used twice")
        names.add(stage.name)
        for position, phase in enumerate(stage.phases):
            key = f"stages[{number}].phases[{position}]"
            try:
                states[phase.fileset.name] = advance(
                    phase.operation, states.get(phase.fileset.name, FileSetState())
                )
            except OutOfOrder as error:
                raise SpecError(
                    f"{key}.operation", f"{phase.operation} of {phase.fileset.name!r}: {error}"
                ) from None
            if phase.component and owner.setdefault(phase.component, stage.name) != stage.name:
                raise SpecError(
                    f"{key}.component",
                    f"{phase.component!r} is timed in stage {owner[phase.component]!r} already;"
                    " a component belongs to one stage",
                )


def _components(fields: Fields, stages: tuple[Stage, ...]) -> tuple[Component, ...]:
    timed = dict.fromkeys(
        phase.component for stage in stages for phase in stage.phases if phase.component
    )
    if not timed:
        raise SpecError("stages", "no phase names a component, so nothing would be timed")
    reader = Fields(fields.value("weights"), "weights")
    weights = {name: reader.number(name, WEIGHT_FLOOR, 1.0) for name in timed}
    for name, _ in fields.mapping("weights"):
        if name not in timed:
            raise SpecError(reader.path(name), "no phase times a component of this name")
    total = fsum(weights.values())
    if abs(total - 1.0) > 1e-9:
        raise SpecError("weights", f"must sum to 1, not {total:.10g}")
    return tuple(Component(name, weight) for name, weight in weights.items())


def _sha256(mapping: object) -> str:
    canonical = json.dumps(mapping, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(canonical.encode()).hexdigest()
