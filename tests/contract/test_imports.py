"""There are no circular imports, neither between packages nor within one."""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter

import grimp

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
