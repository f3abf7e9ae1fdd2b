"""Runs the workload engine on a client of a cell as a controller does, and returns its output."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deploy.cell import Node
from deploy.cell.client import VOLUME_PATH
from deploy.cell.node import SHARED
from tests.integration.conftest import command_lines
from workloads import rundir, zipapp

SEED = 7
ARCHIVE = f"{SHARED}/workloads.pyz"
_LIMIT_S = 100.0


@dataclass(frozen=True)
class Answer:
    """The outcome of one stage: exit status and document."""

    status: int
    document: dict[str, Any]

    @property
    def error(self) -> tuple[object, ...]:
        """Kind, operation, path and errno of a failure, which must come without a score."""
        assert self.status == 3, self.document
        assert self.document["ok"] is False
        assert "components" not in self.document
        error = self.document["error"]
        return error["kind"], error["operation"], error["path"], error["errno"]


@dataclass(frozen=True)
class Runner:
    """One run of one spec on one client."""

    node: Node
    run_id: str

    @classmethod
    def install(cls, node: Node, run_id: str, mapping: Mapping[str, Any]) -> Runner:
        """Install the engine and the spec on the client."""
        zipapp.build(node.shared / Path(ARCHIVE).name)
        (node.shared / f"{run_id}.json").write_text(json.dumps(mapping))
        return cls(node, run_id)

    @property
    def root(self) -> str:
        """The run directory."""
        return rundir.path_of(VOLUME_PATH, self.run_id)

    def command(self, stage: str) -> list[str]:
        """The command of one stage, inside the node."""
        spec = f"{SHARED}/{self.run_id}.json"
        return [
            *("python3", ARCHIVE, "run", spec, "--dir", VOLUME_PATH),
            *("--run-id", self.run_id, "--seed", str(SEED), "--stage", stage),
        ]

    def run(self, stage: str, *before: str) -> Answer:
        """Run a stage to completion; ``before`` is prepended to the command."""
        done = self.node.run([*before, *self.command(stage)], timeout_s=_LIMIT_S)
        return Answer(done.status, json.loads(done.stdout or b"{}"))

    def clean(self) -> None:
        """Remove the run directory as a controller does after a failure."""
        where = ["--dir", VOLUME_PATH, "--run-id", self.run_id]
        done = self.node.run(["python3", ARCHIVE, "clean", *where], timeout_s=_LIMIT_S)
        assert done.status == 0, done.stdout

    def left(self) -> list[str]:
        """What remains: names in the volume, and processes of the engine."""
        names = self.node.check(["ls", "-A", VOLUME_PATH]).split()
        return names + [f"process {pid}" for pid in engine_processes(self.node)]


def engine_processes(node: Node) -> list[int]:
    """The engine's processes in a node, by their process ids on this host, the parent first."""
    return [pid for pid, words in command_lines(node) if ARCHIVE in words]
