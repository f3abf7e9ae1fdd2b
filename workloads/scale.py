"""Scales a workload up or down: takes a mapping and returns one of the same shape.

A file set says what is scaled: ``scale: files`` (its files and directories; the default), ``size``
(the size of each file) or ``fixed`` (nothing; meant for warm-ups). The operations of a mix and the
transactions of postmark are scaled too, and upwards the time that a stage may take. Passes, rates,
record sizes and processes stay the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workloads.spec import MAX_LIMIT_S, Stage, parse

_IN_SIZE = ("bytes", "min_bytes", "max_bytes", "median_bytes")


def scaled(mapping: Mapping[str, Any], by: float) -> dict[str, Any]:
    """Return the spec scaled by ``by``.

    Raises SpecError if the spec is invalid, ValueError unless ``by`` is above 0.
    """
    spec = parse(mapping)
    if not by > 0:
        raise ValueError(f"a scale of {by}")
    processes = max(stage.processes for stage in spec.stages)
    return {
        **mapping,
        "scaled_by": spec.scaled_by * by,
        "filesets": {
            name: _fileset(fileset, by, processes) for name, fileset in mapping["filesets"].items()
        },
        "stages": [
            {
                **stage,
                **_limit(parsed, by),
                "phases": [
                    _phase(phase, mapping["filesets"][phase["fileset"]], by, parsed.processes)
                    for phase in stage["phases"]
                ],
            }
            for stage, parsed in zip(mapping["stages"], spec.stages)
        ],
    }


def _limit(stage: Stage, by: float) -> dict[str, float]:
    """A limit of its own for a stage that takes longer; that of the file is compared with the
    one that a campaign has stored, and stays.
    """
    if by <= 1:
        return {}
    return {"wall_clock_limit_s": min(MAX_LIMIT_S, stage.wall_clock_limit_s * by)}


def _fileset(fileset: Mapping[str, Any], by: float, processes: int) -> dict[str, Any]:
    rule, changed = fileset.get("scale", "files"), dict(fileset)
    if rule == "files":
        # Every process that had its own directory and file keeps them.
        floor = min(fileset["files"], processes)
        files = max(floor, round(fileset["files"] * by))
        changed["files"] = files
        if "directories" in fileset:
            floor = min(fileset["directories"], processes)
            changed["directories"] = min(files, max(floor, round(fileset["directories"] * by)))
        if "postmark" in fileset:
            transactions = max(1, round(fileset["postmark"]["transactions"] * by))
            changed["postmark"] = {**fileset["postmark"], "transactions": transactions}
    elif rule == "size":
        size = dict(fileset["size"])
        for key in _IN_SIZE:
            if size.get(key):
                size[key] = max(1, round(size[key] * by))
        if "buckets" in size:
            size["buckets"] = [
                [round(low * by), max(1, round(high * by)), weight]
                for low, high, weight in size["buckets"]
            ]
        changed["size"] = size
    return changed


def _phase(
    phase: Mapping[str, Any], fileset: Mapping[str, Any], by: float, processes: int
) -> dict[str, Any]:
    if "operations" not in phase or fileset.get("scale") == "fixed":
        return dict(phase)
    return {**phase, "operations": max(processes, round(phase["operations"] * by))}
