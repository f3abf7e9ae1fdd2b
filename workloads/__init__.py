"""The workload engine: runs a declarative spec in a directory and prints one JSON result.

Standard library only and Python 3.9 or newer, because the package is shipped to client hosts as
one zipapp and run by whatever ``python3`` they have. It imports nothing else of this project.

The controller uses ``load`` (text of a packaged or given spec), ``parse`` (mapping to checked
``Spec``), ``resolve`` (mapping to the mapping that is run: composed and scaled), ``merge`` (results
of several clients) and ``workloads.zipapp.build``; a client host uses the command line in
``__main__``.
"""

from __future__ import annotations

from workloads.catalog import SpecSource, load, packaged
from workloads.compose import resolve
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
]
