"""Runs the engine as a client host does: one zipapp, one spec, one document."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workloads import zipapp


@dataclass(frozen=True, slots=True)
class Engine:
    """A built zipapp."""

    archive: Path

    @classmethod
    def build(cls, root: Path) -> Engine:
        """Build the zipapp in a directory."""
        return cls(zipapp.build(root / "workloads.pyz").path)

    def run(
        self, spec: Mapping[str, Any], place: Path, first: Callable[[], None] = lambda: None
    ) -> tuple[dict[str, Any], float]:
        """Run a spec with one stage; return its document and the process's wall time in seconds.

        ``first`` is called after planning, right before the stage; the time includes it.
        """
        path = self.archive.with_name("spec.json")
        path.write_text(json.dumps(spec))
        command = [sys.executable, str(self.archive), "run", str(path), "--dir", str(place)]
        start = time.monotonic()
        with subprocess.Popen(
            [*command, "--run-id", "bench", "--seed", "1", "--gate", "stage"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stderr is not None
            ready = process.stderr.readline()
            first()
            output, complaint = process.communicate("\n")
            took_s = time.monotonic() - start
        if process.returncode != 0:
            raise RuntimeError(ready + complaint + output)
        return json.loads(output), took_s
