"""The engine's version and content hash, which keep results of different engines apart."""

from __future__ import annotations

import hashlib
from importlib.resources import files

ENGINE_VERSION = "4"
"""Incremented whenever the same spec and seed would do different work or be timed differently."""


def sources() -> dict[str, bytes]:
    """Return the engine's modules as ``{file name: content}``, sorted by name.

    Works both from a directory and from inside the zipapp.
    """
    modules = {
        entry.name: entry.read_bytes()
        for entry in files("workloads").iterdir()
        if entry.name.endswith(".py")
    }
    return dict(sorted(modules.items()))


def content_sha256(modules: dict[str, bytes]) -> str:
    """Return one hash (hex) over names and contents, the same for the zipapp and its sources."""
    total = hashlib.sha256()
    for name, content in sorted(modules.items()):
        total.update(f"{name}\0{len(content)}\0".encode())
        total.update(content)
    return total.hexdigest()
