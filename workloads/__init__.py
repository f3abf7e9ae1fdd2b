"""The workload engine: runs a declarative spec in a directory and prints one JSON result.

Uses only the standard library and runs on Python 3.9 or newer, because the package is shipped to
client hosts as one zipapp and run by whatever ``python3`` they have. It imports nothing else from
this project.

The controller uses ``load`` (read the text of a packaged spec or a file), ``parse`` (check a
mapping and return a ``Spec``), ``resolve`` (compose and scale a mapping), ``merge`` (combine the
results of several clients) and ``workloads.zipapp.build``; a client host uses the command line in
``__main__``.
"""

from __future__ import annotations

from workloads.catalogue import SpecSource, load, packaged
from workloads.compose import resolve, resolve_file
from workloads.fields import SpecError
from workloads.merge import merge
from workloads.spec import Spec, parse
from workloads.version import ENGINE_VERSION

__all__ = [
    "ENGINE_VERSION",
    "Spec",
    "SpecError",
    "SpecSource",
    "load",
    "merge",
    "packaged",
    "parse",
    "resolve",
    "resolve_file",
]
