"""Scaling a workload and combining several."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tuner.errors import SpecError as TunerSpecError
from tuner.measure.workload import load_workload
from workloads import SpecError, load, parse, resolve
from workloads.__main__ import main
from workloads.scale import scaled


def _none(name: str) -> object:
    raise AssertionError(name)


def test_scaling_leaves_a_spec_as_it_is_at_one(mapping: dict[str, Any]) -> None:
    assert resolve(mapping, _none, 1.0) is mapping


def test_a_file_set_says_what_is_scaled(mapping: dict[str, Any]) -> None:
    mapping["filesets"] = {
        **mapping["filesets"],
        "big": {**mapping["filesets"]["big"], "scale": "size"},
        "still": {**mapping["filesets"]["small"], "scale": "fixed"},
        "even": {
            "files": 1000,
            "directories": 100,
            "scale": "size",
            "size": {"distribution": "table", "buckets": [[0, 10, 1], [1000, 4000, 2]]},
        },
    }
    small, big, still, even = parse(resolve(mapping, _none, 0.5)).filesets
    assert (small.files, small.directories, small.sizes.most) == (10, 2, 9000)
    assert (big.files, big.total_bytes) == (1, 2_500_000)
    assert (still.files, still.directories) == (20, 3)
    assert (even.files, even.directories, even.sizes.most) == (1000, 100, 2000)


@pytest.mark.parametrize("by", [1e-6, 0.01, 3.0])
def test_every_scale_leaves_a_spec_that_can_be_run(mapping: dict[str, Any], by: float) -> None:
    mapping["processes"] = 3
    mix = {"operation": "mix", "fileset": "small", "operations": 50, "choose": {"read": 1}}
    mapping["stages"][1]["phases"].append(mix)
    spec = parse(resolve(mapping, _none, by))
    assert spec.scaled_by == by
    small = spec.filesets[0]
    assert small.files >= small.directories >= 3
    phase = spec.stages[1].phases[-1]
    assert phase.mix is not None
    assert phase.mix.operations == max(3, round(50 * by))


def test_scales_multiply(mapping: dict[str, Any]) -> None:
    twice = resolve(resolve(mapping, _none, 0.5), _none, 0.5)
    assert parse(twice).scaled_by == 0.25


def _mix(**changes: object) -> dict[str, Any]:
    return {
        "name": "both",
        "description": "two of them",
        "workloads": [
            {"workload": "one", "weight": 0.75},
            {"workload": "two", "weight": 0.25, "scale": 0.5},
        ],
        **changes,
    }


@pytest.fixture
def shelf(mapping: dict[str, Any]) -> dict[str, Any]:
    """Return two workloads by name; the second runs in one process."""
    small = {
        **mapping,
        "name": "small",
        "processes": 1,
        "wall_clock_limit_s": 30,
        "stages": [{**stage, "name": stage["name"]} for stage in mapping["stages"]],
    }
    return {"one": mapping, "two": small}


def test_combined_workloads_keep_their_properties(shelf: dict[str, Any]) -> None:
    spec = parse(resolve(_mix(), shelf.__getitem__))
    first, second = (parse(each) for each in shelf.values())
    assert [stage.name for stage in spec.stages] == [
        *(f"every-operation-{stage.name}" for stage in first.stages),
        *(f"small-{stage.name}" for stage in second.stages),
    ]
    assert [stage.processes for stage in spec.stages] == [2, 2, 2, 1, 1, 1]
    assert [stage.cache for stage in spec.stages] == ["as-is", "cold", "as-is"] * 2
    weights = {part.name: part.weight for part in spec.components}
    assert weights["every-operation-stream"] == pytest.approx(0.15)
    assert weights["small-stream"] == pytest.approx(0.05)
    assert spec.filesets[0].files == 2 * spec.filesets[2].files == 20
    assert [stage.wall_clock_limit_s for stage in spec.stages] == [60, 60, 60, 30, 30, 30]


def test_a_larger_workload_may_take_longer_and_a_smaller_one_no_less(
    shelf: dict[str, Any],
) -> None:
    for by, limits_s in ((10.0, [600] * 3 + [300] * 3), (0.1, [60] * 3 + [30] * 3)):
        spec = parse(resolve(_mix(), shelf.__getitem__, by))
        assert [stage.wall_clock_limit_s for stage in spec.stages] == limits_s
    assert parse(scaled(shelf["one"], 5e3)).stages[0].wall_clock_limit_s == 86_400


@pytest.mark.parametrize(
    ("changes", "key", "problem"),
    [
        ({"workloads": []}, "workloads", "must not be empty"),
        ({"processes": 2}, "processes", "not a known key"),
        (
            {"workloads": [{"workload": "one", "weight": 0.5}]},
            "workloads",
            "must sum to 1, not 0.5",
        ),
        (
            {"workloads": [{"workload": "one", "weight": 0.5}] * 2},
            "workloads[1].workload",
            "listed twice",
        ),
        ({"workloads": [{"workload": "one"}]}, "workloads[0].weight", "is missing"),
        (
            {"workloads": [{"workload": "bad", "weight": 1}]},
            "workloads[0].workload",
            "'bad': name: is missing",
        ),
        (
            {"workloads": [{"workload": "mix", "weight": 1}]},
            "workloads[0].workload",
            "itself composed",
        ),
        (
            {
                "workloads": [
                    {"workload": "one", "weight": 0.9},
                    {"workload": "two", "weight": 0.1},
                ]
            },
            "weights.small-stream",
            "between 0.05 and 1",
        ),
    ],
)
def test_a_mistake_in_a_mix_is_named(
    shelf: dict[str, Any], changes: dict[str, Any], key: str, problem: str
) -> None:
    shelf |= {"bad": {}, "mix": _mix()}
    with pytest.raises(SpecError) as caught:
        resolve(_mix(**changes), shelf.__getitem__)
    assert caught.value.key == key
    assert problem in caught.value.problem


def test_a_name_with_a_null_is_refused() -> None:
    parts = {"workloads": [{"workload": "a\0b", "weight": 1.0}]}
    with pytest.raises(SpecError, match=r"'a\\x00b' is not a valid name or path"):
        resolve(_mix(**parts), load)


@pytest.fixture
def whole(tmp_path: Path, mapping: dict[str, Any]) -> str:
    """Return a file in a directory of its own, composed of the one beside it."""
    directory = tmp_path / "elsewhere"
    directory.mkdir()
    (directory / "part.json").write_text(json.dumps(mapping))
    parts = {"workloads": [{"workload": "part.json", "weight": 1.0}]}
    (directory / "whole.json").write_text(json.dumps(_mix(**parts)))
    return str(directory / "whole.json")


def test_a_path_in_a_mix_is_relative_to_its_file(whole: str) -> None:
    assert load_workload(whole).spec.stages[0].name.startswith("every-operation-")
    absent = Path(whole).with_name("absent.json")
    Path(whole).write_text(Path(whole).read_text().replace("part.json", absent.name))
    with pytest.raises(TunerSpecError, match=f"no workload and no file '{absent}'"):
        load_workload(whole)


def test_the_engine_reads_a_mix_from_anywhere(
    whole: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["run", whole, "--dir", str(tmp_path), "--seed", "1", "--stage", "none"]
    assert main(words) == 2
    assert "both has no stage 'none'; its stages: every-operation-" in capsys.readouterr().err


@pytest.mark.timeout(20)
def test_a_workload_that_is_no_regular_file_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (str(tmp_path / "pipe"), "/dev/zero"):
        with pytest.raises(SpecError, match=f"cannot read {path}: it is not a regular file"):
            load(path)
    with pytest.raises(SpecError, match="Is a directory"):
        load(str(tmp_path))
    with (tmp_path / "long").open("wb") as file:
        file.truncate((4 << 20) + 1)
    with pytest.raises(SpecError, match="is longer than 4 MiB"):
        load(str(tmp_path / "long"))


@pytest.mark.timeout(20)
def test_a_file_that_became_a_pipe_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").touch()
    before, stat = (tmp_path / "file").stat(), os.stat
    monkeypatch.setattr(
        os, "stat", lambda path, **more: before if "pipe" in str(path) else stat(path, **more)
    )
    with pytest.raises(SpecError, match="it is not a regular file"):
        load(str(tmp_path / "pipe"))
