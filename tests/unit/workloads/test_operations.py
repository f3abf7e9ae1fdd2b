"""Every operation does on disk what the plan says, and reading back detects when it did not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.workloads.conftest import Engine
from workloads import parse
from workloads.operations import TABLE
from workloads.phases import MIXABLE
from workloads.plan import plan_stage
from workloads.sequence import PER_DIRECTORY, PER_FILE

pytestmark = pytest.mark.slow

CHANGES = (
    *("rewrite", "append", "truncate", "random-write", "read-modify-write", "rename"),
    *("append", "random-write", "read-modify-write"),
)
LOOKS = ("random-read", "access", "chmod", "flock", "fsync", "link", "walk", "stat", "list", "read")


def _spec(mapping: dict[str, Any], *operations: str, **keys: object) -> dict[str, Any]:
    """Return a spec that creates 20 files in one stage and performs the operations in the next."""
    phases = [
        {"operation": name, "fileset": "small", "component": "all", **keys} for name in operations
    ]
    return {
        **mapping,
        "stages": [
            {
                "name": "write",
                "cache": "as-is",
                "phases": [
                    {"operation": "mkdir", "fileset": "small"},
                    {"operation": "create", "fileset": "small"},
                ],
            },
            {"name": "change", "cache": "as-is", "phases": phases},
            {
                "name": "after",
                "cache": "cold",
                "phases": [{"operation": "read", "fileset": "small"}],
            },
        ],
        "weights": {"all": 1},
    }


@pytest.mark.parametrize("order", ["sequential", "shuffled"])
def test_all_changes_are_read_back_as_planned(
    engine: Callable[..., Engine], mapping: dict[str, Any], order: str
) -> None:
    changed = _spec(mapping, *CHANGES, *LOOKS, order=order)
    own = engine(**changed)
    assert own.run("write").status == 0
    done = own.run("change")
    assert done.status == 0, done.document
    by_operation = done.document["components"]["all"]["by_operation"]
    assert set(by_operation) == {*CHANGES, *LOOKS}
    assert by_operation["append"]["operations"] == 40
    assert by_operation["append"]["bytes"] == 40 * 4096
    assert by_operation["walk"]["operations"] == 3
    # The files have exactly the planned names and lengths.
    reads = plan_stage(parse(changed), 2, 7).phases[0].steps
    planned = {step.path: step.end for share in reads for step in share}
    sizes = {
        str(path.relative_to(own.root)): path.stat().st_size for path in own.root.glob("small.*/f*")
    }
    assert sizes == planned
    after = own.run("after")
    assert (after.status, after.document["verified"]["files"]) == (0, 20)
    assert after.document["verified"]["bytes"] == sum(planned.values())


@pytest.mark.parametrize(
    ("operation", "passes"), [("rewrite", 1), ("append", 2), ("random-write", 3)]
)
def test_a_lost_write_is_detected(
    engine: Callable[..., Engine], mapping: dict[str, Any], operation: str, passes: int
) -> None:
    mapping["filesets"]["small"]["size"] = {"distribution": "fixed", "bytes": 9000}
    own = engine(**_spec(mapping, operation, passes=passes))
    assert own.run("write").status == 0
    before = {path: path.read_bytes() for path in own.root.glob("small.*/f*")}
    assert own.run("change").status == 0
    path, old = sorted(before.items())[0]
    assert path.read_bytes()[: len(old)] != old or operation == "append"
    size = path.stat().st_size
    path.write_bytes(old + bytes(size - len(old)))
    error = own.run("after").document["error"]
    assert (error["kind"], error["operation"], error["path"]) == ("mismatch", "read", str(path))


def test_every_word_of_a_spec_has_an_operation() -> None:
    assert {*PER_DIRECTORY, *PER_FILE, *MIXABLE} == set(TABLE)


def test_a_tree_is_created_from_the_top_and_removed_from_the_bottom(
    engine: Callable[..., Engine], mapping: dict[str, Any]
) -> None:
    mapping["filesets"] = {
        "tree": {
            "files": 60,
            "directories": 30,
            "fanout": 3,
            "size": {"distribution": "uniform", "min_bytes": 0, "max_bytes": 900},
        }
    }
    mapping["stages"] = [
        {
            "name": "all",
            "cache": "as-is",
            "phases": [
                {"operation": name, "fileset": "tree", "component": "all"}
                for name in (
                    *("extract", "walk", "read", "remove-tree"),
                    *("mkdir", "create", "list", "unlink", "rmdir"),
                )
            ],
        }
    ]
    mapping["weights"] = {"all": 1}
    own = engine(**mapping)
    answer = own.run("all")
    assert answer.status == 0, answer.document
    operations = answer.document["components"]["all"]["by_operation"]
    assert operations["mkdir"]["operations"] == operations["rmdir"]["operations"] == 60
    assert operations["create"]["operations"] == operations["unlink"]["operations"] == 120
    assert list(own.directory.iterdir()) == []


def test_the_archiver_goes_depth_first(mapping: dict[str, Any]) -> None:
    small = {"files": 4, "directories": 4, "fanout": 2}
    mapping["filesets"] = {"tree": {**small, "size": {"distribution": "fixed", "bytes": 1}}}
    phases = [
        {"operation": name, "fileset": "tree", "component": "all"}
        for name in ("extract", "remove-tree")
    ]
    mapping["stages"] = [{"name": "all", "cache": "as-is", "phases": phases}]
    mapping["weights"] = {"all": 1}
    extract, remove = plan_stage(parse(mapping), 0, 1).phases
    assert extract.steps[1] == remove.steps[1] == ()
    top, deep = "tree.d00000", "tree.d00000/d00001/d00003"
    names = [(step.operation, step.path.count("/")) for step in extract.steps[0]]
    assert names == [
        ("mkdir", 0),
        ("create", 1),
        *[("mkdir", 1), ("create", 2)],
        *[("mkdir", 2), ("create", 3)],
        *[("mkdir", 1), ("create", 2)],
    ]
    assert [step.path for step in remove.steps[0] if step.operation == "rmdir"] == [
        *(deep, "tree.d00000/d00001", "tree.d00000/d00002", top)
    ]
