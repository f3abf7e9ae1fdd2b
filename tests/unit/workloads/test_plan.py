"""The same seed gives the same work, another seed different work of the same amount."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any

import pytest

from workloads.files import permutation, plan_files
from workloads.plan import plan_stage
from workloads.sizes import Fixed, LogNormal, Uniform, spread
from workloads.spec import parse


def test_a_seed_fixes_the_plan_to_the_bit_on_every_python(mapping: dict[str, Any]) -> None:
    assert permutation(8, 1, "x") == [3, 2, 7, 5, 1, 0, 4, 6]
    assert plan_stage(parse(mapping), 1, 7).operations_sha256 == (
        "02a1a5d7e597dae2cc123dac52bb81cb0f6a26b8b26c65512ab0f153c13b0788"
    )


def test_another_seed_changes_who_gets_what_but_not_how_much(mapping: dict[str, Any]) -> None:
    small = parse(mapping).filesets[0]
    one, other = plan_files(small, 1), plan_files(small, 2)
    assert plan_files(small, 1) == one
    assert one != other
    assert sorted(f.size_bytes for f in one) == sorted(f.size_bytes for f in other)


def test_file_ids_are_unique_over_all_sets(mapping: dict[str, Any]) -> None:
    planned = [file for fileset in parse(mapping).filesets for file in plan_files(fileset, 1)]
    assert len({file.file_id for file in planned}) == len(planned) == 21


@pytest.mark.parametrize("processes", [1, 2, 3, 32])
def test_every_file_is_dealt_to_exactly_one_process(
    mapping: dict[str, Any], processes: int
) -> None:
    mapping["processes"] = processes
    reads = plan_stage(parse(mapping), 1, 7).phases[3]
    assert len(reads.steps) == processes
    sets = [{step.path for step in share} for share in reads.steps]
    assert sum(len(paths) for paths in sets) == len(set().union(*sets)) == 20
    for share in reads.steps:
        half = len(share) // 2
        assert {step.path for step in share[:half]} == {step.path for step in share[half:]}


def test_shuffled_passes_differ_from_each_other(mapping: dict[str, Any]) -> None:
    mapping["processes"] = 1
    (share,) = plan_stage(parse(mapping), 1, 7).phases[3].steps
    first, second = share[:20], share[20:]
    assert first != second
    assert sorted(step.path for step in first) == sorted(step.path for step in second)


def test_a_later_stage_knows_names_and_generations_left_by_earlier_phases(
    mapping: dict[str, Any],
) -> None:
    phases = plan_stage(parse(mapping), 2, 7).phases
    rename, moved, _, again, reread, _, empty, _ = (phase.steps[0][0] for phase in phases)
    assert (rename.path, rename.target) == (
        "small.d00000/f0000000",
        "small.d00000/f0000000.1",
    )
    assert (moved.path, moved.image.generation) == ("small.d00000/f0000000.1", 1)
    assert (again.path, again.image.generation) == ("small.d00000/f0000000", 2)
    assert (reread.path, reread.image) == (again.path, again.image)
    assert empty.entries == ()


def test_a_listing_expects_every_file_of_its_directory(mapping: dict[str, Any]) -> None:
    listing = plan_stage(parse(mapping), 1, 7).phases[0]
    expected = {step.path: step.entries for share in listing.steps for step in share}
    assert sum(len(names) for names in expected.values()) == 20
    for read in plan_stage(parse(mapping), 1, 7).phases[3].steps[0]:
        path = PurePosixPath(read.path)
        assert path.name in expected[str(path.parent)]


@pytest.mark.parametrize(
    ("sizes", "least", "middle", "most"),
    [
        (Fixed(10), 10, 10, 10),
        (Uniform(0, 1000), 5, 505, 995),
        (LogNormal(4096, 1.0, 1000, 30_000), 1000, 4148, 30_000),
    ],
)
def test_sizes_follow_their_distribution(
    sizes: Fixed | Uniform | LogNormal, least: int, middle: int, most: int
) -> None:
    values = spread(sizes, 100)
    assert list(values) == sorted(values)
    assert (values[0], values[50], values[-1]) == (least, middle, most)
