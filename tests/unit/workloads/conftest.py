"""A small spec that uses every operation, and the engine's command line.

It is run from what the zipapp contains, unpacked and compiled: compiling would otherwise be most of
the work of a command.
"""

from __future__ import annotations

import compileall
import json
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from workloads import zipapp

RUN_ID = "run.1"


@dataclass(frozen=True)
class Answer:
    """The result of a command."""

    status: int
    document: dict[str, Any]
    stderr: str


@dataclass(frozen=True)
class Engine:
    """The program, a spec file and a directory to work in."""

    program: Path
    spec: Path
    directory: Path
    python: str = sys.executable

    @property
    def root(self) -> Path:
        """The run directory."""
        return self.directory / f"fstune-{RUN_ID}"

    def arguments(self, stage: str, seed: int = 7) -> list[str]:
        """Return the command line of one stage; no site packages, no environment."""
        return [
            *(self.python, "-I", "-S", str(self.program), "run", str(self.spec)),
            *("--dir", str(self.directory), "--run-id", RUN_ID),
            *("--seed", str(seed), "--stage", stage),
        ]

    def run(self, stage: str, *more: str, seed: int = 7) -> Answer:
        """Run one stage to completion."""
        return self._call([*self.arguments(stage, seed), *more])

    def clean(self) -> Answer:
        """Run ``clean``."""
        where = ("--dir", str(self.directory), "--run-id", RUN_ID)
        return self._call([self.python, "-I", "-S", str(self.program), "clean", *where])

    def _call(self, command: list[str]) -> Answer:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        return Answer(done.returncode, json.loads(done.stdout or "{}"), done.stderr)


def every_operation() -> dict[str, Any]:
    """Return a spec that uses every operation, in three stages."""
    return {
        "name": "every-operation",
        "description": "each operation once at least",
        "processes": 2,
        "wall_clock_limit_s": 60,
        "filesets": {
            "small": {
                "files": 20,
                "directories": 3,
                "size": {"distribution": "uniform", "min_bytes": 0, "max_bytes": 9000},
                "record_bytes": 4096,
            },
            "big": {"files": 1, "size": {"distribution": "fixed", "bytes": 5_000_001}},
        },
        "stages": [
            {
                "name": "write",
                "cache": "as-is",
                "phases": [
                    {"operation": "mkdir", "fileset": "big"},
                    {"operation": "create", "fileset": "big", "component": "stream"},
                    {"operation": "mkdir", "fileset": "small", "component": "write"},
                    {"operation": "create", "fileset": "small", "component": "write"},
                ],
            },
            {
                "name": "read",
                "cache": "cold",
                "phases": [
                    {"operation": "list", "fileset": "small", "component": "meta", "passes": 2},
                    {"operation": "stat", "fileset": "small", "component": "meta"},
                    {"operation": "negative-stat", "fileset": "small", "component": "meta"},
                    {
                        "operation": "read",
                        "fileset": "small",
                        "component": "read",
                        "order": "shuffled",
                        "passes": 2,
                    },
                    {"operation": "read", "fileset": "big", "component": "read"},
                ],
            },
            {
                "name": "change",
                "cache": "as-is",
                "phases": [
                    {"operation": "rename", "fileset": "small", "component": "delete"},
                    {"operation": "read", "fileset": "small"},
                    {"operation": "unlink", "fileset": "small", "component": "delete"},
                    {"operation": "create", "fileset": "small"},
                    {"operation": "read", "fileset": "small"},
                    {"operation": "unlink", "fileset": "small"},
                    {"operation": "list", "fileset": "small"},
                    {"operation": "rmdir", "fileset": "small", "component": "delete"},
                ],
            },
        ],
        "weights": {"stream": 0.2, "write": 0.2, "meta": 0.2, "read": 0.2, "delete": 0.2},
    }


@pytest.fixture
def mapping() -> dict[str, Any]:
    """Return a spec that uses every operation, for a test to change."""
    return every_operation()


def new_engine(program: Path, place: Path, spec: dict[str, Any]) -> Engine:
    """Return an engine for a spec, which works in a new directory in ``place``."""
    file = place / "spec.json"
    file.write_text(json.dumps(spec))
    directory = place / "under-test"
    directory.mkdir()
    return Engine(program, file, directory)


@pytest.fixture(scope="session")
def pyz(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a built zipapp."""
    return zipapp.build(tmp_path_factory.mktemp("pyz") / "workloads.pyz").path


@pytest.fixture(scope="session")
def program(pyz: Path) -> Path:
    """Return a directory with the contents of the zipapp."""
    directory = pyz.with_suffix("")
    with zipfile.ZipFile(pyz) as archive:
        archive.extractall(directory)
    # Now, not when first needed: that may be a run with a limit on file sizes, which cuts them off.
    assert compileall.compile_dir(directory, quiet=1)
    return directory


@pytest.fixture
def engine(program: Path, tmp_path: Path, mapping: dict[str, Any]) -> Callable[..., Engine]:
    """Return a function that returns an engine for the spec with changed top-level keys."""

    return lambda **changes: new_engine(program, tmp_path, {**mapping, **changes})
