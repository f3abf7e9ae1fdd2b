"""Combines several workloads into one spec, each with a weight.

``workloads``, in place of ``stages``, lists what to run, one after the other, each with a
``weight`` (the weights sum to 1) and optionally a ``scale``. A path in it is relative to the
directory of its file. Names are prefixed with the name of their workload, and weights are
multiplied.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import fsum
from typing import Any

from workloads.catalogue import SpecSource, load
from workloads.fields import Fields, SpecError
from workloads.scale import scaled
from workloads.spec import parse

_TOLERANCE = 1e-9


def resolve(mapping: object, read: Callable[[str], object], by: float = 1.0) -> Mapping[str, Any]:
    """Return the spec described by ``mapping``, composed if it lists workloads, scaled by ``by``.

    ``read`` returns the mapping of a workload, given its name or path. Raises SpecError.
    """
    fields = Fields(mapping, "")
    if fields.has("workloads"):
        spec: Mapping[str, Any] = _compose(fields, read)
    else:
        parse(mapping)
        assert isinstance(mapping, Mapping)
        spec = mapping
    return spec if by == 1.0 else scaled(spec, by)


def resolve_file(
    name_or_path: str, mapping_of: Callable[[SpecSource], object], by: float = 1.0
) -> Mapping[str, Any]:
    """Return the spec with that name or at that path, see ``catalogue.load`` and ``resolve``.

    ``mapping_of`` parses the text of a spec. Raises SpecError, and whatever it raises.
    """
    whole = load(name_or_path)
    beside = whole.path.parent
    return resolve(mapping_of(whole), lambda name: mapping_of(load(name, beside)), by)


def _compose(fields: Fields, read: Callable[[str], object]) -> dict[str, Any]:
    document: dict[str, Any] = {
        "name": fields.name("name"),
        "description": fields.text("description"),
        "processes": 1,
        "wall_clock_limit_s": 0.0,
        "least_clients": 1,
        "filesets": {},
        "stages": [],
        "weights": {},
    }
    weights = []
    names: set[str] = set()
    for key, item in fields.items("workloads"):
        entry = Fields(item, key)
        source = entry.text("workload")
        weight = entry.number("weight", 0.0, 1.0)
        by = entry.number("scale", 1e-6, 1e6, default=1.0)
        entry.refuse_unknown()
        _add(document, entry, source, read(source), weight, by, names)
        weights.append(weight)
    fields.refuse_unknown()
    if abs(fsum(weights) - 1.0) > _TOLERANCE:
        raise SpecError("workloads", f"their weights must sum to 1, not {fsum(weights):.10g}")
    parse(document)
    return document


def _add(
    document: dict[str, Any],
    entry: Fields,
    source: str,
    mapping: object,
    weight: float,
    by: float,
    names: set[str],
) -> None:
    if isinstance(mapping, Mapping) and "workloads" in mapping:
        raise SpecError(entry.path("workload"), f"{source!r} is itself composed of others")
    try:
        parse(mapping)
        assert isinstance(mapping, Mapping)
        inner = mapping if by == 1.0 else scaled(mapping, by)
        spec = parse(inner)
    except SpecError as error:
        raise SpecError(entry.path("workload"), f"{source!r}: {error}") from None
    if spec.name in names:
        raise SpecError(entry.path("workload"), f"{spec.name!r} is listed twice")
    names.add(spec.name)

    def own(name: str) -> str:
        return f"{spec.name}-{name}"

    document["wall_clock_limit_s"] += spec.wall_clock_limit_s
    document["least_clients"] = max(document["least_clients"], spec.least_clients)
    document["filesets"].update({own(name): each for name, each in inner["filesets"].items()})
    document["weights"].update(
        {own(name): weight * each for name, each in inner["weights"].items()}
    )
    for stage, stage_spec in zip(inner["stages"], spec.stages):
        phases = []
        for phase in stage["phases"]:
            new_phase = {**phase, "fileset": own(phase["fileset"])}
            if "component" in phase:
                new_phase["component"] = own(phase["component"])
            phases.append(new_phase)
        document["stages"].append(
            {
                **stage,
                "name": own(stage["name"]),
                "processes": stage_spec.processes,
                "wall_clock_limit_s": stage_spec.wall_clock_limit_s,
                "phases": phases,
            }
        )
