"""Owns the engine's version and its content hash, so that results of unlike engines never mix."""

from __future__ import annotations

import hashlib
from importlib.resources import files

ENGINE_VERSION = "3"
"""Raised whenever the same spec and seed would do different work or be timed differently."""


def sources() -> dict[str, bytes]:
    """Return the engine's modules as ``{file name: content}``, sorted by name.

    Works alike from a directory and from inside the zipapp.
    """
    modules = {
        entry.name: entry.read_bytes()
        for entry in files("workloads").iterdir()
        if entry.name.endswith(".py")
    }
    return dict(sorted(modules.items()))


def content_sha256(modules: dict[str, bytes]) -> str:
    """Return one hash over names and contents (hex); the zipapp and its sources have the same."""
    total = hashlib.sha256()
    for name, content in sorted(modules.items()):
        total.update(f"{name}\0{len(content)}\0".encode())
        total.update(content)
    return total.hexdigest()
