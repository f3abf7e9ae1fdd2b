"""Mixes: derived from the seed, private to each process, and correct on disk."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import Any

import pytest

from tests.unit.workloads.conftest import Engine
from workloads import parse
from workloads.draws import Draws
from workloads.phases import MIXABLE
from workloads.plan import PhasePlan, plan_stage


def _spec(mapping: dict[str, Any], **mix: object) -> dict[str, Any]:
    mapping["filesets"]["small"]["compressible_percent"] = 50
    phase = {"operation": "mix", "fileset": "small", **mix}
    return {
        **mapping,
        "stages": [
            {
                "name": "work",
                "cache": "as-is",
                "phases": [
                    {"operation": "mkdir", "fileset": "small"},
                    {"operation": "create", "fileset": "small"},
                    {**phase, "warm_up": True},
                    {**phase, "component": "all"},
                ],
            },
            {
                "name": "after",
                "cache": "cold",
                "phases": [
                    {"operation": name, "fileset": "small"}
                    for name in ("walk", "read", "unlink", "rmdir")
                ],
            },
        ],
        "weights": {"all": 1},
    }


def _choose(mapping: dict[str, Any], operations: int = 3000) -> dict[str, Any]:
    sizes = {"distribution": "table", "buckets": [[1, 100, 1], [4096, 8192, 3]]}
    return _spec(
        mapping,
        operations=operations,
        choose=dict.fromkeys(MIXABLE, 1),
        commit_percent=10,
        read_size=sizes,
        write_size=sizes,
    )


def _planned(mapping: dict[str, Any], seed: int = 1) -> PhasePlan:
    return plan_stage(parse(mapping), 0, seed).phases[3]


@pytest.mark.slow
def test_a_mix_of_everything_is_verified_and_cleaned_up(
    engine: Callable[..., Engine], mapping: dict[str, Any]
) -> None:
    own = engine(**_choose(mapping, 1500))
    work = own.run("work")
    assert work.status == 0, work.document
    operations = work.document["components"]["all"]["by_operation"]
    assert set(operations) == set(MIXABLE)
    assert sum(each["operations"] for each in operations.values()) == 1500
    assert work.document["verified"]["bytes"] > 0
    after = own.run("after")
    assert after.status == 0, after.document
    assert list(own.directory.iterdir()) == []


@pytest.mark.slow
def test_one_seed_makes_one_sequence(mapping: dict[str, Any]) -> None:
    changed = _choose(mapping)
    assert _planned(changed).steps == _planned(changed).steps
    assert _planned(changed, 2).steps != _planned(changed).steps


def test_processes_never_touch_each_others_files(mapping: dict[str, Any]) -> None:
    one, other = (
        {str(PurePosixPath(step.path).parent) for step in share if "/" in step.path}
        for share in _planned(_choose(mapping)).steps
    )
    assert one
    assert other
    assert not one & other


@pytest.mark.slow
def test_operations_come_as_often_as_they_weigh(mapping: dict[str, Any]) -> None:
    changed = _spec(mapping, operations=20_000, choose={"stat": 70, "read": 25, "rename": 5})
    counts = Counter(step.operation for share in _planned(changed).steps for step in share)
    assert abs(counts["stat"] / 20_000 - 0.70) < 0.02
    assert abs(counts["rename"] / 20_000 - 0.05) < 0.01


def test_a_cycle_is_followed_in_turn(mapping: dict[str, Any]) -> None:
    cycle: list[dict[str, object]] = [
        {"operation": "create", "sync": True},
        {"operation": "append", "file": "same", "sync": True},
        {"operation": "read", "file": "first"},
        {"operation": "unlink"},
    ]
    phase = _planned(_spec(mapping, operations=80, cycle=cycle))
    for share in phase.steps:
        assert [step.operation for step in share] == [c["operation"] for c in cycle] * 10
        for create, append, read, _ in zip(*(share[at::4] for at in range(4)), strict=True):
            assert append.path == create.path
            assert append.start == create.end
            assert create.sync
            assert append.sync
            assert not read.sync


def test_a_read_modify_write_may_end_with_fsync(mapping: dict[str, Any]) -> None:
    name = "read-modify-write"
    cycle = [{"operation": name, "sync": True}, {"operation": name}]
    for share in _planned(_spec(mapping, operations=20, cycle=cycle)).steps:
        assert [step.sync for step in share] == [True, False] * 5
    mix = _spec(mapping, operations=20, choose={name: 1}, commit_percent=100)
    assert all(step.sync for share in _planned(mix).steps for step in share)


def test_a_process_without_files_makes_one(mapping: dict[str, Any]) -> None:
    phase = _planned(_spec(mapping, operations=200, choose={"unlink": 1}))
    counts = Counter(step.operation for share in phase.steps for step in share)
    assert counts["unlink"] == counts["create"] == 100


def test_sequential_transfers_go_through_the_file_and_begin_again(mapping: dict[str, Any]) -> None:
    del mapping["filesets"]["small"]
    mapping["filesets"]["small"] = {
        "files": 1,
        "size": {"distribution": "fixed", "bytes": 10_000},
        "record_bytes": 4096,
    }
    mapping["processes"] = 1
    phase = _planned(_spec(mapping, operations=7, choose={"next-write": 1}))
    ends = [(step.start, step.end) for step in phase.steps[0]]
    three = [(0, 4096), (4096, 8192), (8192, 10_000)]
    # The warm-up has already made its seven: two rounds and one transfer.
    assert ends == [*three[1:], *three, *three[:2]]


@pytest.mark.parametrize("limit", [1, 2, 7, 1 << 40])
def test_draws_stay_in_their_bounds_and_depend_on_the_labels(limit: int) -> None:
    draws, again, other = Draws(1, "a"), Draws(1, "a"), Draws(1, "b")
    numbers = [draws.below(limit) for _ in range(1500)]
    assert numbers == [again.below(limit) for _ in range(1500)]
    assert all(0 <= number < limit for number in numbers)
    assert limit == 1 or numbers != [other.below(limit) for _ in range(1500)]
    assert all(0 < draws.unit() < 1 for _ in range(100))
