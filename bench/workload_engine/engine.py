"""Runs the engine as a client host does: one zipapp, one spec, one document."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Mapping
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
        """Build it."""
        return cls(zipapp.build(root / "workloads.pyz").path)

    def run(self, spec: Mapping[str, Any], place: Path) -> tuple[dict[str, Any], float]:
        """Run a spec of one stage; return its document and the seconds the process lasted."""
        path = self.archive.with_name("spec.json")
        path.write_text(json.dumps(spec))
        command = [sys.executable, str(self.archive), "run", str(path), "--dir", str(place)]
        start = time.monotonic()
        done = subprocess.run(
            [*command, "--run-id", "bench", "--seed", "1"],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        return json.loads(done.stdout), time.monotonic() - start
