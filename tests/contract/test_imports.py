"""There are no circular imports, neither between packages nor within one; what is imported from
others is declared and documented.
"""

from __future__ import annotations

import re
import sys
import tomllib
from graphlib import CycleError, TopologicalSorter
from importlib.metadata import packages_distributions
from pathlib import Path

import grimp
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOMS = ("api", "deploy", "search_spaces", "tuner", "workloads")


def test_there_are_no_circular_imports() -> None:
    graph = grimp.build_graph(*ROOMS, cache_dir=None)
    imported = {m: graph.find_modules_directly_imported_by(m) for m in graph.modules}
    assert len(imported) > 300
    circle: list[str] = []
    try:
        TopologicalSorter(imported).prepare()
    except CycleError as problem:
        circle = problem.args[1]
    assert circle == []


def _dependencies(root: Path) -> set[str]:
    declared = tomllib.loads((root / "pyproject.toml").read_text())["project"]["dependencies"]
    return {canonicalize_name(Requirement(each).name) for each in declared}


def test_every_package_that_is_imported_is_declared(root: Path) -> None:
    graph = grimp.build_graph(*ROOMS, include_external_packages=True, cache_dir=None)
    # Squashed modules are those of others; this one is only for type checkers.
    names = {m for m in graph.modules if graph.is_module_squashed(m)} - {"_typeshed"}
    origins = packages_distributions()
    imported = {canonicalize_name(origins[m][0]) for m in names - sys.stdlib_module_names}
    assert len(imported) > 20
    assert imported - _dependencies(root) == set()


def test_every_dependency_is_documented(root: Path) -> None:
    text = (root / "docs" / "dependencies.md").read_text().split("## For development")[0]
    rows = re.findall(r"^\| ([\w, -]+) \|", text, re.MULTILINE)
    assert _dependencies(root) - {name for row in rows for name in row.split(", ")} == set()
