"""Loading workloads for campaigns: look up, compose, scale and validate."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, partial

import yaml

import workloads
from search_spaces.reading import document
from tuner.documents import yaml_mistake
from tuner.errors import SpecError


@dataclass(frozen=True, slots=True)
class Workload:
    """A runnable workload. ``spec``: the validated spec; ``document``: the same as JSON, for the
    engine.
    """

    spec: workloads.Spec
    document: bytes

    @property
    def components(self) -> tuple[str, ...]:
        return tuple(component.name for component in self.spec.components)

    @property
    def size_bytes(self) -> int:
        """Size of the files that a run begins with."""
        return sum(fileset.total_bytes for fileset in self.spec.filesets)

    @property
    def weights(self) -> tuple[float, ...]:
        return tuple(component.weight for component in self.spec.components)


def workload_measured(document: object) -> Workload:
    """Return the workload that a campaign has stored: complete, in its scale, and without a
    description. Opens no file. Raises SpecError.
    """
    mapping = {"description": "-", **document} if isinstance(document, Mapping) else document
    try:
        return Workload(workloads.parse(mapping), json.dumps(mapping).encode())
    except workloads.SpecError as problem:
        raise SpecError(f"the workload that was measured: {problem}") from problem


def load_workload(name_or_path: str, scale: float = 1.0) -> Workload:
    """Load a workload by packaged name or path, at ``scale`` times its full size. Raises
    SpecError.
    """
    if not name_or_path.isprintable():
        raise SpecError(f"workload {name_or_path!r}: not a valid name or path")
    is_packaged = name_or_path in workloads.packaged()
    return (_packaged if is_packaged else _read)(name_or_path, scale)


@cache
def _packaged(name: str, scale: float) -> Workload:
    return _read(name, scale, trusted=True)


def _read(name_or_path: str, scale: float, *, trusted: bool = False) -> Workload:
    try:
        mapping = workloads.resolve_file(name_or_path, partial(_mapping, trusted=trusted), scale)
        return Workload(workloads.parse(mapping), json.dumps(mapping).encode())
    except workloads.SpecError as problem:
        raise SpecError(f"workload {name_or_path}: {problem}") from problem


def _mapping(source: workloads.SpecSource, *, trusted: bool) -> object:
    try:
        return document(source.text, trusted=trusted)
    except RecursionError:
        raise workloads.SpecError("", "it is nested too deeply") from None
    except (yaml.YAMLError, ValueError) as problem:
        raise workloads.SpecError("", f"not YAML: {yaml_mistake(problem)}") from problem
