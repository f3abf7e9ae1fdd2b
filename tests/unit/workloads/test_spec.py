"""Errors in a spec are reported with their location, and only valid specs are accepted."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import yaml

from workloads import SpecError, load, packaged, parse, resolve
from workloads.spec import WEIGHT_FLOOR

MISSING = object()

ERRORS: list[tuple[tuple[str | int, ...], object, str, str]] = [
    (("name",), MISSING, "name", "is missing"),
    (("name",), "Mixed Use", "name", "lower-case"),
    (("name",), "a" * 41, "name", "at most 40"),
    (("name",), 5, "name", "must be a string, not a int"),
    (("description",), " ", "description", "must not be empty"),
    (("processes",), 0, "processes", "between 1 and"),
    (("processes",), True, "processes", "whole number"),
    (("processes",), 1.5, "processes", "whole number"),
    (("wall_clock_limit_s",), "60", "wall_clock_limit_s", "must be a number"),
    (("wall_clock_limit_s",), float("nan"), "wall_clock_limit_s", "between"),
    (("wall_clock_limit_s",), float("inf"), "wall_clock_limit_s", "between"),
    (("filesets",), {}, "filesets", "must not be empty"),
    (("filesets",), [], "filesets", "must be a mapping"),
    (("filesets", "Small"), {}, "filesets.Small", "lower-case"),
    (("filesets", 3), {}, "filesets", "the key 3"),
    (("filesets", "big", "files"), 0, "filesets.big.files", "between 1 and"),
    (("filesets", "big", "directories"), 2, "filesets.big.directories", "number of files (2 > 1)"),
    (("filesets", "big", "colour"), 1, "filesets.big.colour", "not a known key"),
    (("filesets", "big", "record_bytes"), 0, "filesets.big.record_bytes", "between 1 and"),
    (("filesets", "big", "size"), MISSING, "filesets.big.size", "is missing"),
    (
        ("filesets", "big", "size", "distribution"),
        "normal",
        "filesets.big.size.distribution",
        "one of fixed, uniform, log-normal, table, not 'normal'",
    ),
    (("filesets", "big", "size", "sigma"), 1, "filesets.big.size.sigma", "not a known key"),
    (
        ("filesets", "small", "size", "min_bytes"),
        9001,
        "filesets.small.size.min_bytes",
        "above max_bytes (9001 > 9000)",
    ),
    (
        ("filesets", "small", "size"),
        {
            "distribution": "log-normal",
            "median_bytes": 50,
            "sigma": 1,
            "min_bytes": 60,
            "max_bytes": 70,
        },
        "filesets.small.size.median_bytes",
        "between 60 and 70",
    ),
    (("stages",), [], "stages", "must not be empty"),
    (("stages",), {}, "stages", "must be a list"),
    (("stages", 0), "write", "stages[0]", "must be a mapping"),
    (("stages", 0, "cache"), "warm", "stages[0].cache", "one of as-is, cold"),
    (("stages", 1, "name"), "write", "stages[1].name", "used twice"),
    (("stages", 0, "phases"), [], "stages[0].phases", "must not be empty"),
    (("stages", 0, "phases", 0, "operation"), "mkdirs", "stages[0].phases[0].operation", "one of"),
    (("stages", 0, "phases", 0, "fileset"), "tiny", "stages[0].phases[0].fileset", "small, big"),
    (("stages", 0, "phases", 0, "passes"), 2, "stages[0].phases[0].passes", "not mkdir"),
    (("stages", 1, "phases", 1, "passes"), 100_001, "stages[1].phases[1].passes", "more than"),
    (("stages", 1, "phases", 3, "order"), "random", "stages[1].phases[3].order", "shuffled"),
    (
        ("stages", 0, "phases", 0, "operation"),
        "create",
        "stages[0].phases[0].operation",
        "create of 'big': the directories do not exist yet",
    ),
    (
        ("stages", 0, "phases", 1, "operation"),
        "mkdir",
        "stages[0].phases[1].operation",
        "directories exist already",
    ),
    (
        ("stages", 0, "phases", 1, "operation"),
        "stat",
        "stages[0].phases[1].operation",
        "no create before it",
    ),
    (
        ("stages", 1, "phases", 1, "operation"),
        "create",
        "stages[1].phases[1].operation",
        "files exist already",
    ),
    (
        ("stages", 2, "phases", 0, "operation"),
        "rmdir",
        "stages[2].phases[0].operation",
        "still hold files",
    ),
    (
        ("stages", 1, "phases", 0, "component"),
        "write",
        "stages[1].phases[0].component",
        "timed in stage 'write' already",
    ),
    (("stages", 0, "processes"), 0, "stages[0].processes", "between 1 and"),
    (("filesets", "small", "scale"), "half", "filesets.small.scale", "one of files, size, fixed"),
    (("filesets", "small", "fanout"), 0, "filesets.small.fanout", "between 1 and"),
    (
        ("filesets", "small", "compressible_percent"),
        91,
        "filesets.small.compressible_percent",
        "between 0 and 90",
    ),
    (
        ("filesets", "small", "size"),
        {"distribution": "table", "buckets": [[0, 5, 1], [4, 9, 1]]},
        "filesets.small.size.buckets[1]",
        "overlaps",
    ),
    (
        ("filesets", "small", "size"),
        {"distribution": "table", "buckets": [[0, 5]]},
        "filesets.small.size.buckets[0]",
        "a list of least bytes, most bytes and weight",
    ),
    (
        ("filesets", "small", "size"),
        {"distribution": "table", "buckets": [[6, 5, 1]]},
        "filesets.small.size.buckets[0].most",
        "between 6 and",
    ),
    (("stages", 1, "phases", 0, "rate_per_s"), 0, "stages[1].phases[0].rate_per_s", "between"),
    (("stages", 1, "phases", 0, "warm_up"), "yes", "stages[1].phases[0].warm_up", "true or false"),
    (("stages", 1, "phases", 0, "warm_up"), True, "stages[1].phases[0].warm_up", "not timed"),
    (("stages", 1, "phases", 0, "choose"), {}, "stages[1].phases[0].choose", "not a known key"),
    *(
        (("stages", 1, "phases", 0), {"operation": "mix", "fileset": "small", **mix}, key, problem)
        for mix, key, problem in (
            ({}, "stages[1].phases[0].operations", "is missing"),
            ({"operations": 5}, "stages[1].phases[0]", "either choose or cycle"),
            (
                {"operations": 5, "choose": {"stat": 1}, "cycle": []},
                "stages[1].phases[0]",
                "either choose or cycle",
            ),
            (
                {"operations": 5, "choose": {"fly": 1}},
                "stages[1].phases[0].choose.fly",
                "must be one of stat",
            ),
            (
                {"operations": 5, "choose": {"stat": 0}},
                "stages[1].phases[0].choose.stat",
                "between",
            ),
            (
                {"operations": 5, "cycle": [{"operation": "stat", "file": "last"}]},
                "stages[1].phases[0].cycle[0].file",
                "one of any, same, first",
            ),
            (
                {
                    "operations": 5,
                    "choose": {"read": 1},
                    "read_size": {"distribution": "fixed", "bytes": 5 << 20},
                },
                "stages[1].phases[0].read_size",
                "at most",
            ),
            (
                {"operations": 5, "cycle": [{"operation": "append"}], "commit_percent": 1},
                "stages[1].phases[0].commit_percent",
                "only for choose; steps of a cycle have sync",
            ),
            (
                {"operations": 5, "choose": {"read": 1, "fsync": 1}, "commit_percent": 1},
                "stages[1].phases[0].commit_percent",
                "no operation of the mix writes",
            ),
            (
                {"operations": 5, "cycle": [{"operation": "truncate", "sync": True}]},
                "stages[1].phases[0].cycle[0].sync",
                "truncate does not write",
            ),
            (
                {"operations": 5, "choose": {"read": 1}, "order": "shuffled"},
                "stages[1].phases[0].order",
                "mix has an order of its own",
            ),
            (
                {"operations": 5, "choose": {"read": 1}, "fileset": "big"},
                "stages[1].phases[0].fileset",
                "a directory of its own: 1 directories, 2 processes",
            ),
        )
    ),
    *(
        (
            ("stages", 2, "phases", 0),
            {"operation": operation, "fileset": "small", "order": "shuffled"},
            "stages[2].phases[0].order",
            "has an order of its own; leave it out",
        )
        for operation in ("extract", "remove-tree", "postmark-delete")
    ),
    (
        ("stages", 0, "phases", 1, "operation"),
        "postmark-create",
        "stages[0].phases[1].fileset",
        "does not say how postmark is to draw",
    ),
    (("weights", "read"), MISSING, "weights.read", "is missing"),
    (("weights", "speed"), 0.1, "weights.speed", "no phase times"),
    (("weights", "read"), 0.3, "weights", "must sum to 1, not 1.1"),
    (("weights", "read"), WEIGHT_FLOOR - 0.01, "weights.read", "between 0.05 and 1"),
    (("weights",), [1], "weights", "must be a mapping"),
    (("budget",), 1, "budget", "not a known key"),
]


def _changed(mapping: dict[str, Any], path: tuple[str | int, ...], value: object) -> dict[str, Any]:
    result = copy.deepcopy(mapping)
    inner: Any = result
    for key in path[:-1]:
        inner = inner[key]
    if value is MISSING:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return result


@pytest.mark.parametrize(("path", "value", "key", "problem"), ERRORS)
def test_a_mistake_is_named_with_its_key_path(
    mapping: dict[str, Any], path: tuple[str | int, ...], value: object, key: str, problem: str
) -> None:
    with pytest.raises(SpecError) as caught:
        parse(_changed(mapping, path, value))
    assert caught.value.key == key
    assert problem in caught.value.problem
    assert str(caught.value).startswith(f"{key}: ")


def test_directories_of_a_tree_are_not_made_in_any_order(mapping: dict[str, Any]) -> None:
    mapping["filesets"]["small"]["fanout"] = 2
    mapping["stages"][0]["phases"][2]["order"] = "shuffled"
    with pytest.raises(SpecError, match=r"order: mkdir of a tree goes from level to level"):
        parse(mapping)


@pytest.mark.parametrize("value", [None, [], "mixed-use", 3])
def test_only_a_mapping_is_a_spec(value: object) -> None:
    with pytest.raises(SpecError, match="must be a mapping"):
        parse(value)


def test_without_a_component_nothing_would_be_timed(mapping: dict[str, Any]) -> None:
    for stage in mapping["stages"]:
        for phase in stage["phases"]:
            phase.pop("component", None)
    with pytest.raises(SpecError, match="nothing would be timed"):
        parse(mapping)


def test_a_spec_is_what_the_mapping_says(mapping: dict[str, Any]) -> None:
    spec = parse(mapping)
    assert [stage.name for stage in spec.stages] == ["write", "read", "change"]
    assert [stage.cache for stage in spec.stages] == ["as-is", "cold", "as-is"]
    assert spec.stage_index("change") == 2
    big = spec.filesets[1]
    assert (big.name, big.files, big.directories, big.total_bytes) == ("big", 1, 1, 5_000_001)
    read = spec.stages[1].phases[3]
    assert (read.operation, read.order, read.passes) == ("read", "shuffled", 2)
    assert {part.name: part.weight for part in spec.components} == mapping["weights"]


def test_the_hash_ignores_the_order_of_keys_and_nothing_else(mapping: dict[str, Any]) -> None:
    turned = dict(reversed(mapping.items()))
    assert parse(turned).sha256 == parse(mapping).sha256
    mapping["processes"] = 3
    assert parse(turned).sha256 != parse(mapping).sha256


@pytest.mark.parametrize("name", packaged())
def test_packaged_specs_are_valid_and_named_after_their_file(name: str) -> None:
    def read(source: str) -> object:
        return yaml.safe_load(load(source).text)

    for by in (1.0, 0.01):
        spec = parse(resolve(read(name), read, by))
        assert (spec.name, spec.scaled_by) == (name, by)
    for component in spec.components:
        phases = next(
            stage.phases
            for stage in spec.stages
            if component.name in [phase.component for phase in stage.phases]
        )
        first = [phase.component for phase in phases].index(component.name)
        assert any(phase.warm_up for phase in phases[:first]), "nothing warms up before it"


def test_mixed_use_is_half_small_files_and_half_one_large() -> None:
    spec = parse(yaml.safe_load(load("mixed-use").text))
    assert sum(p.weight for p in spec.components if p.name.startswith("large")) == 0.5
    assert {part.name for part in spec.components} == {
        "small-write",
        "large-write",
        "small-read-cold",
        "large-read-cold",
        "small-read-warm",
        "metadata",
        "small-delete",
    }
    cold = [stage for stage in spec.stages if stage.cache == "cold"]
    assert [stage.name for stage in cold] == ["read"]


def test_an_unknown_workload_is_told_apart_from_the_packaged_ones() -> None:
    with pytest.raises(SpecError, match=r"no workload and no file 'mixed'; packaged: .*mixed-use"):
        load("mixed")


@pytest.mark.parametrize("key", ["wall_clock_limit_s", "processes"])
def test_a_number_of_hundreds_of_digits_is_refused(mapping: dict[str, Any], key: str) -> None:
    for number in (10**400, -(10**400), 10**5000):
        mapping[key] = number
        with pytest.raises(SpecError, match=f"^{key}: must be .*, not a number that large$"):
            parse(mapping)


def test_a_tree_that_is_too_deep_is_refused(mapping: dict[str, Any]) -> None:
    size = {"distribution": "fixed", "bytes": 10}
    fileset = {"files": 1200, "directories": 1200, "size": size, "fanout": 1}
    mapping["filesets"]["deep"] = fileset
    with pytest.raises(SpecError, match=r"filesets\.deep\.fanout: makes 1200 levels .* than 200"):
        parse(mapping)
    fileset["fanout"] = 2
    parse(mapping)
