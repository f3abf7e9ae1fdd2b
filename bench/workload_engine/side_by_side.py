"""The postmark component timed against Debian's postmark, with identical configuration."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import yaml

import workloads
from bench.workload_engine.engine import Engine
from bench.workload_engine.tools import Tools

_MIB = 1 << 20
_COMMANDS = (
    "set size 500 1048576\nset number 8192\nset subdirectories 256\nset read 4096\n"
    "set write 4096\nset transactions 500\nset seed 42\nrun\nquit\n"
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """One run. ``timed_s``: what the engine times, or postmark's whole process by our clock."""

    timed_s: float
    created: int
    read: int
    appended: int
    read_mib: float
    written_mib: float

    @property
    def counts(self) -> tuple[int, int, int, float, float]:
        """The counts on which both must agree."""
        return self.created, self.read, self.appended, self.read_mib, self.written_mib


def ours(engine: Engine, place: Path, first: Callable[[], None]) -> Outcome:
    """Run the packaged component at full size; calls ``first`` right before its clock starts."""
    spec = yaml.safe_load(workloads.load("postmark").text)
    document, _ = engine.run(spec, place, first)
    total = document["components"]["total"]
    operations = total["by_operation"]
    return Outcome(
        total["elapsed_s"],
        operations["create"]["operations"],
        operations["read"]["operations"],
        operations["append"]["operations"],
        round(operations["read"]["bytes"] / _MIB, 2),
        round((operations["create"]["bytes"] + operations["append"]["bytes"]) / _MIB, 2),
    )


def theirs(tools: Tools, place: Path, first: Callable[[], None]) -> Outcome:
    """Run Debian's postmark; errors show as lines with "Error", not in its exit status."""
    first()
    start = time.monotonic()
    output = tools.run("postmark", cwd=place, input=_COMMANDS)
    process_s = time.monotonic() - start
    if "Error" in output:
        raise RuntimeError(output)
    return Outcome(
        process_s,
        int(_figure(r"(\d+) created", output)),
        int(_figure(r"(\d+) read \(", output)),
        int(_figure(r"(\d+) appended", output)),
        float(_figure(r"([\d.]+) megabytes read", output)),
        float(_figure(r"([\d.]+) megabytes written", output)),
    )


def _figure(pattern: str, text: str) -> str:
    match = re.search(pattern, text)
    if match is None:
        raise RuntimeError(f"no {pattern!r} in: {text}")
    return match[1]
