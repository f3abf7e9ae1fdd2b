"""Builds ``workloads.pyz``: the whole engine in one file that any python3 (3.9+) can run.

The build is reproducible: entries are sorted, have a fixed timestamp and are not compressed
(compressed output may differ between zlib versions). That is not so with bytecode, which is for a
file that is used at once: without it, every start of the engine compiles all modules anew.
"""

from __future__ import annotations

import errno
import importlib.util
import io
import marshal
import os
import zipfile
from dataclasses import dataclass
from pathlib import Path

from workloads.version import content_sha256, sources

_SHEBANG = b"#!/usr/bin/env python3\n"
_MAIN = b"import sys\n\nfrom workloads.__main__ import main\n\nsys.exit(main())\n"
_TIME = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True)
class Archive:
    """A built zipapp. ``sha256`` is what its results report as ``engine.sha256``."""

    path: Path
    sha256: str


def packed(*, bytecode: bool = False) -> bytes:
    """Return the zipapp.

    ``bytecode``: with the modules as compiled by this Python, too. A host with the same version of
    Python starts the engine in two thirds of the processor time; others compile the sources.
    """
    modules = sources()
    entries = {f"workloads/{name}": content for name, content in modules.items()}
    entries["__main__.py"] = _MAIN
    if bytecode:
        entries |= {f"workloads/{name}c": _compiled(name, modules[name]) for name in modules}
    buffer = io.BytesIO()
    buffer.write(_SHEBANG)
    with zipfile.ZipFile(buffer, "a", zipfile.ZIP_STORED) as archive:
        for name, content in sorted(entries.items()):
            entry = zipfile.ZipInfo(name, _TIME)
            entry.create_system = 3
            entry.external_attr = 0o100644 << 16
            archive.writestr(entry, content)
    return buffer.getvalue()


def build(path: Path) -> Archive:
    """Write the zipapp to ``path``, atomically replacing an existing file.

    Raises OSError, also if ``path`` exists but is not a regular file: a rename would replace even
    a device.
    """
    if os.path.lexists(path) and not path.is_file():
        raise OSError(errno.EEXIST, "it exists and is not a regular file", str(path))
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.write_bytes(packed())
        draft.chmod(0o755)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    return Archive(path, content_sha256(sources()))


def _compiled(name: str, content: bytes) -> bytes:
    """The bytecode file of a module, which Python uses without a look at the source's time."""
    # Hosts need not know where the modules are on this machine.
    code = compile(content, f"workloads/{name}", "exec", dont_inherit=True)
    unchecked = (1).to_bytes(4, "little")
    return (
        importlib.util.MAGIC_NUMBER
        + unchecked
        + importlib.util.source_hash(content)
        + marshal.dumps(code)
    )
