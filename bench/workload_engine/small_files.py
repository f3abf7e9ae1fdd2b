"""Small files one at a time, by several generators: operations per second of each kind."""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from bench.workload_engine.engine import Engine
from bench.workload_engine.tools import Tools

FILES = 20_000
SIZE = 4096
_ENGINE_WORDS = {"create": "create", "stat": "stat", "read": "read", "unlink": "unlink"}


def engine(archive: Engine, place: Path) -> dict[str, float]:
    """Run the engine: whole files, read back and verified off the clock."""
    spec = {
        "name": "bench",
        "description": "small files",
        "processes": 1,
        "wall_clock_limit_s": 600,
        "filesets": {"f": {"files": FILES, "size": {"distribution": "fixed", "bytes": SIZE}}},
        "stages": [
            {
                "name": "all",
                "cache": "as-is",
                "phases": [
                    {"operation": "mkdir", "fileset": "f"},
                    *(
                        {"operation": word, "fileset": "f", "component": name}
                        for name, word in _ENGINE_WORDS.items()
                    ),
                ],
            }
        ],
        "weights": dict.fromkeys(_ENGINE_WORDS, 1 / len(_ENGINE_WORDS)),
    }
    document, _ = archive.run(spec, place)
    return {name: FILES / one["elapsed_s"] for name, one in document["components"].items()}


def loop(place: Path, reopen: bool) -> dict[str, float]:
    """Run a plain loop of the same system calls, without single measurements or verification."""
    paths = [str(place / f"f{number:07d}") for number in range(FILES)]
    data = [os.urandom(SIZE)]
    buffer, beyond = [bytearray(SIZE)], [bytearray(1)]

    def create(path: str) -> None:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        os.writev(descriptor, data)
        os.close(descriptor)
        if reopen:
            descriptor = os.open(path, os.O_RDONLY)
            os.pread(descriptor, 1, SIZE - 1)
            os.close(descriptor)
            os.close(os.open(path, os.O_RDONLY))

    def read(path: str) -> None:
        descriptor = os.open(path, os.O_RDONLY)
        os.readv(descriptor, buffer)
        os.readv(descriptor, beyond)
        os.close(descriptor)

    return {
        "create": _rate(create, paths),
        "stat": _rate(os.stat, paths),
        "read": _rate(read, paths),
        "unlink": _rate(os.unlink, paths),
    }


def fs_mark(tools: Tools, place: Path) -> dict[str, float]:
    """Run fs_mark without syncing: create, write and close."""
    arguments = ["-d", str(place), "-n", str(FILES), "-s", str(SIZE), "-w", str(SIZE), "-S", "0"]
    output = tools.run("fs_mark", *arguments, cwd=place)
    match = re.search(rf"^\s*\d+\s+{FILES}\s+{SIZE}\s+([\d.]+)", output, re.MULTILINE)
    if match is None:
        raise RuntimeError(output)
    _empty(place)
    return {"create": float(match[1])}


def fio(tools: Tools, place: Path) -> dict[str, float]:
    """Run fio with one open file at a time."""
    shared = (
        *("--name=f", f"--directory={place}", f"--nrfiles={FILES}", f"--filesize={SIZE}"),
        *(f"--bs={SIZE}", "--openfiles=1", "--file_service_type=sequential", "--thread"),
        *("--fallocate=none", "--invalidate=0", "--output-format=json"),
    )
    runs = {
        "create": ("--ioengine=sync", "--rw=write", "--create_on_open=1"),
        "stat": ("--ioengine=filestat", "--rw=read"),
        "read": ("--ioengine=sync", "--rw=read"),
        "unlink": ("--ioengine=filedelete", "--rw=read"),
    }
    rates = {}
    for name, own in runs.items():
        output = tools.run("fio", *shared, *own, cwd=place)
        job = json.loads(output[output.index("{") :])["jobs"][0]
        part = job["write" if name == "create" else "read"]
        if part["total_ios"] != FILES:
            raise RuntimeError(f"fio did {part['total_ios']} of {FILES} {name}")
        rates[name] = float(part["iops"])
    _empty(place)
    return rates


def _rate(act: Callable[[str], object], paths: Iterable[str]) -> float:
    start = time.monotonic()
    for path in paths:
        act(path)
    return FILES / (time.monotonic() - start)


def _empty(place: Path) -> None:
    for entry in place.iterdir():
        if entry.is_dir():
            shutil.rmtree(entry)
        else:
            entry.unlink()
