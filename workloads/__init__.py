"""The workload engine: runs a declarative spec in a directory and prints one JSON result.

Standard library only and Python 3.9 or newer, because the package is shipped to client hosts as
one zipapp and run by whatever ``python3`` they have. It imports nothing else of this project.

The controller uses ``load`` (text of a packaged or given spec), ``parse`` (mapping to checked
``Spec``) and ``workloads.zipapp.build``; a client host uses the command line in ``__main__``.
"""

from __future__ import annotations

from workloads.catalog import SpecSource, load, packaged
from workloads.fields import SpecError
from workloads.spec import Spec, parse
from workloads.version import ENGINE_VERSION

__all__ = ["ENGINE_VERSION", "Spec", "SpecError", "SpecSource", "load", "packaged", "parse"]
