"""A workload that cannot run on AFS is refused before anything is measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

import workloads
from tuner.measure.workload import Workload, load_workload
from tuner.services.kind import Needs
from tuner.services.openafs.suitable import mistakes_of_workload, room_for

MAKE = ({"operation": "mkdir"}, {"operation": "create", "component": "time"})
MOST = 64_435


def mistakes(workload: Workload) -> list[str]:
    return mistakes_of_workload(9, "testbed", "it", Needs({}, workload))


def spool(
    fileset: dict[str, Any],
    *phases: dict[str, Any],
    processes: int = 1,
    make: Sequence[dict[str, Any]] = MAKE,
) -> Workload:
    """A workload of one file set, made and then used."""
    size = {"distribution": "uniform", "min_bytes": 1, "max_bytes": 9}
    mapping = {
        "name": "one",
        "description": "one file set",
        "processes": processes,
        "wall_clock_limit_s": 60,
        "filesets": {"spool": {"size": size, **fileset}},
        "stages": [
            {
                "name": "only",
                "cache": "as-is",
                "phases": [{"fileset": "spool", **phase} for phase in (*make, *phases)],
            }
        ],
        "weights": {"time": 1.0},
    }
    return Workload(workloads.parse(mapping), b"")


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("f0000000", MOST),
        ("x" * 15, MOST),
        ("x" * 16, 31_706),
        ("x" * 47, 31_706),
        ("x" * 48, 21_478),
    ],
)
def test_long_names_take_more_of_a_directory(name: str, count: int) -> None:
    assert room_for(name) == count


@pytest.mark.parametrize("name", workloads.packaged())
def test_every_packaged_workload_can_run(name: str) -> None:
    assert mistakes(load_workload(name)) == []


def test_the_directories_that_are_needed_are_named() -> None:
    assert mistakes(spool({"files": MOST - 1})) == []
    (message,) = mistakes(spool({"files": MOST}))  # and one more while it is renamed
    assert message == (
        "testbed: workload one: file set spool: a directory in AFS can hold 64,435 files at most; "
        "at this scale it needs 2 directories at least, not 1"
    )
    (message,) = mistakes(spool({"files": 1_000_000, "directories": 10}))
    assert "needs 16 directories at least, not 10" in message
    assert mistakes(spool({"files": 1_000_000, "directories": 16})) == []


@pytest.mark.parametrize(
    "mix",
    [
        {"choose": {"create": 3, "unlink": 1, "read": 1}},
        {
            "cycle": [
                {"operation": "create-empty"},
                {"operation": "create"},
                {"operation": "unlink"},
            ]
        },
    ],
)
def test_files_that_a_mix_adds_count(mix: dict[str, Any]) -> None:
    def workload(directories: int) -> Workload:
        phase = {"operation": "mix", "operations": 900_000, "warm_up": True, **mix}
        return spool({"files": 10, "directories": directories}, phase, processes=2)

    (message,) = mistakes(workload(2))
    assert "needs 6 directories at least, not 2" in message
    assert mistakes(workload(6)) == []


def test_files_that_postmark_adds_count() -> None:
    rules = {"transactions": 100_000, "create_bias": 10}
    fileset = {"files": 60_000, "postmark": rules}
    assert mistakes(spool(fileset)) == []
    create, transactions, delete = (
        {"operation": f"postmark-{part}", "component": "time"}
        for part in ("create", "transactions", "delete")
    )
    (message,) = mistakes(spool(fileset, transactions, delete, make=(MAKE[0], create)))
    assert "needs 2 directories at least" in message


def test_the_directories_of_a_run_and_of_a_tree_are_names_too() -> None:
    flat = {"files": 70_000, "directories": 70_000}
    (message,) = mistakes(spool(flat))
    assert "a run has those of all file sets in one: use fewer directories, or a fanout" in message
    assert mistakes(spool({**flat, "fanout": 300})) == []
    (message,) = mistakes(spool({**flat, "fanout": 69_999}))
    assert "it needs a smaller fanout" in message


def test_directories_that_a_mix_makes_are_in_the_run_directory() -> None:
    phase = {"operation": "mix", "operations": 70_000, "choose": {"mkdir": 1}}
    (message,) = mistakes(spool({"files": 1}, phase))
    assert "a run has those of all file sets in one" in message
