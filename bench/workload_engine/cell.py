"""The engine's own cost on a real filesystem: processor time compared with wall time."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

import workloads
from deploy.cell import Cell, Cells, CellSpec, Node
from deploy.cell.client import VOLUME_PATH
from deploy.cell.node import SHARED
from workloads import zipapp

#: Workload and scale.
RUNS = (("mixed-use", 1.0), ("postmark", 0.1))


@dataclass(frozen=True, slots=True)
class Cost:
    """One component: its time, and the processor seconds of the engine's own code within it.

    The latter is summed over all processes.
    """

    workload: str
    component: str
    elapsed_s: float
    user_s: float


@contextmanager
def private_cell(state: Path) -> Iterator[Cell]:
    """Run a cell with two clients."""
    cells = Cells(state)
    try:
        yield cells.up(CellSpec("bench", clients=2))
    finally:
        cells.down("bench")


def costs(cell: Cell, name: str, scale: float) -> list[Cost]:
    """Run a workload, each stage on the next client, so that it reads with a cold cache."""
    mapping = workloads.resolve(_read(name), _read, scale)
    costs_of_stages = []
    for index, stage in enumerate(workloads.parse(mapping).stages):
        node = cell.clients[index % len(cell.clients)]
        zipapp.build(node.shared / "workloads.pyz")
        (node.shared / "spec.json").write_text(json.dumps(mapping))
        costs_of_stages += _costs(node, name, stage.name)
    return costs_of_stages


def _costs(node: Node, name: str, stage: str) -> list[Cost]:
    command = ["python3", f"{SHARED}/workloads.pyz", "run", f"{SHARED}/spec.json"]
    command += ["--dir", VOLUME_PATH, "--run-id", "bench", "--seed", "1", "--stage", stage]
    document = json.loads(node.check(command, timeout_s=600))
    elapsed_s: dict[str, float] = defaultdict(float)
    user_s: dict[str, float] = defaultdict(float)
    for phase in document["phases"]:
        if phase["role"] == "timed":
            elapsed_s[phase["component"]] += phase["elapsed_s"]
            user_s[phase["component"]] += phase["user_s"]
    return [Cost(name, key, elapsed_s[key], user_s[key]) for key in elapsed_s]


def _read(name: str) -> object:
    return yaml.safe_load(workloads.load(name).text)
