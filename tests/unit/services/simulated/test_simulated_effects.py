"""Effects of every shape, relative to the default, on the parameter's scale."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pytest
from pydantic import ValidationError

import search_spaces
from tuner.errors import SpecError
from tuner.measure.workload import load_workload
from tuner.model import Configuration, Value
from tuner.services.simulated import World
from tuner.services.simulated.document import SimulatedSection, world_of
from tuner.services.simulated.noise import Run

SPACES = {
    "fileserver": search_spaces.load("openafs-fileserver-1.8"),
    "cache_manager": search_spaces.load("openafs-cache-manager-fuse-1.8"),
}
COMPONENTS = load_workload("mixed-use").components
CALLBACKS = "fileserver.callbacks"  # a logarithmic scale, 60000 by default
CHUNKSIZE = "cache_manager.chunksize"  # a plain scale, 18 by default
HALF = math.log(0.5)


def world(*effects: Mapping[str, Any], **section: Any) -> World:
    document = {"effects": list(effects), **section}
    return world_of(SimulatedSection.model_validate(document), SPACES, COMPONENTS)


def log_time(
    *effects: Mapping[str, Any], of: str = "metadata", settings: Mapping[str, Value] | None = None
) -> float:
    return world(*effects).log_change(Configuration.of(settings or {}), of)


def callbacks(shape: str, **more: object) -> dict[str, object]:
    return {"parameter": CALLBACKS, "change": -0.5, "shape": shape, **more}


@pytest.mark.parametrize(
    ("effect", "value", "share"),
    [
        (callbacks("linear", at=240_000), 240_000, 1.0),
        (callbacks("linear", at=240_000), 120_000, 0.5),
        (callbacks("linear", at=240_000), 60_000, 0.0),
        (callbacks("linear", at=240_000), 30_000, -0.5),
        (callbacks("plateau", low=60_000, high=240_000), 120_000, 0.5),
        (callbacks("plateau", low=60_000, high=240_000), 4_000_000, 1.0),
        (callbacks("plateau", low=60_000, high=240_000), 20_000, 0.0),
        (callbacks("plateau", low=30_000, high=60_000, falling=True), 30_000, 1.0),
        (callbacks("plateau", low=30_000, high=60_000, falling=True), 90_000, 0.0),
        # The part of the effect that the default has already is no gain, and can be lost.
        (callbacks("plateau", low=30_000, high=120_000), 120_000, 0.5),
        (callbacks("plateau", low=30_000, high=120_000), 20_000, -0.5),
        (callbacks("hump", at=240_000), 240_000, 1.0),
        (callbacks("hump", at=240_000), 60_000, 0.0),
        (callbacks("hump", at=240_000), 960_000, 0.0),
        (callbacks("hump", at=240_000), 100_000_000, -1.0),
        (callbacks("peak", at=960_000, width=1.3), 960_000, 1.0),
        (callbacks("peak", at=960_000, width=1.3), 60_000, 0.0),
        (callbacks("peak", at=960_000, width=2.0), 1_920_000, math.exp(-0.5)),
        ({"parameter": CHUNKSIZE, "change": -0.5, "shape": "linear", "at": 22}, 20, 0.5),
        (
            {"parameter": CHUNKSIZE, "change": -0.5, "shape": "peak", "at": 22, "width": 2},
            20,
            math.exp(-0.5) - math.exp(-2.0),
        ),
    ],
)
def test_the_height_of_curves(effect: dict[str, Any], value: int, share: float) -> None:
    change = log_time(effect, settings={effect["parameter"]: value})
    assert change == pytest.approx(share * HALF, abs=1e-3)


@pytest.mark.parametrize("shape", ["linear", "plateau", "hump", "peak"])
def test_an_unset_parameter_changes_nothing(shape: str) -> None:
    ends = {
        "plateau": {"low": 30_000, "high": 240_000},
        "peak": {"at": 240_000, "width": 2},
    }.get(shape, {"at": 240_000})
    assert log_time(callbacks(shape, **ends)) == 0.0
    assert log_time(callbacks(shape, **ends), settings={CALLBACKS: 60_000}) == 0.0
    assert log_time(callbacks(shape, **ends), settings={CALLBACKS: 200_000}) < 0.0


def test_each_component_has_a_change_of_its_own() -> None:
    trade = {
        "parameter": CHUNKSIZE,
        "shape": "linear",
        "at": 24,
        "changes": {"large-read-cold": -0.3, "small-read-cold": 0.5},
    }
    changes = {name: log_time(trade, of=name, settings={CHUNKSIZE: 21}) for name in COMPONENTS}
    assert changes.pop("large-read-cold") == pytest.approx(math.log(0.7) / 2)
    assert changes.pop("small-read-cold") == pytest.approx(math.log(1.5) / 2)
    assert set(changes.values()) == {0.0}


def test_an_effect_may_depend_on_other_parameters_and_their_defaults() -> None:
    memory = {"parameter": "cache_manager.memcache", "value": True, "change": 0.5}
    small = memory | {"change": -0.5, "when": [{"parameter": CHUNKSIZE, "high": 16}]}
    default = memory | {"change": -0.5, "when": [{"parameter": CHUNKSIZE, "low": 18, "high": 18}]}
    memcache: dict[str, Value] = {"cache_manager.memcache": True}
    assert log_time(memory, small, settings=memcache) == pytest.approx(math.log(1.5))
    both = memcache | {CHUNKSIZE: 15}
    assert log_time(memory, small, settings=both) == pytest.approx(math.log(0.75))
    assert log_time(memory, small, settings={CHUNKSIZE: 15}) == 0.0
    assert log_time(default, settings=memcache) == pytest.approx(HALF)
    assert log_time(default, settings=both) == 0.0


def test_combinations_fail_where_their_last_part_is_brought_up() -> None:
    both = {
        "parameter": "fileserver.threads",
        "low": 100,
        "fails": "start",
        "when": [{"parameter": CHUNKSIZE, "low": 20}],
    }
    truth = world(both)
    bad = Configuration.of({"fileserver.threads": 128, CHUNKSIZE: 22})
    assert truth.failure(bad, "start") == "fileserver.threads"
    assert truth.failure(bad, "start", parts=("fileserver",)) is None
    assert truth.failure(bad, "workload") is None
    assert truth.failure(Configuration.of({"fileserver.threads": 128}), "start") is None
    assert truth.failure(Configuration.of({CHUNKSIZE: 22}), "start") is None


@pytest.mark.parametrize(
    ("effect", "message"),
    [
        (callbacks("linear"), "a linear needs 'at'"),
        (callbacks("peak", at=100_000), "a peak needs 'width'"),
        (callbacks("plateau", low=1), "a plateau needs 'high'"),
        (callbacks("plateau", low=5, high=5), "a plateau needs a ramp"),
        (callbacks("plateau", low=6, high=5), "low 6 is above high 5"),
        (callbacks("hump", at=5, width=2), "a hump takes no 'width'"),
        (callbacks("step", at=5), "a step takes no 'at'"),
        (callbacks("linear", at=5, falling=True), "only a plateau can be falling"),
        (callbacks("linear", at=5, fails="start"), "only a step can fail"),
        (callbacks("bump", at=5), "'step', 'linear', 'plateau', 'hump' or 'peak'"),
        (callbacks("step", changes={"metadata": -0.1}), "give only one"),
        ({"parameter": CALLBACKS, "change": -1.0}, "greater than -1"),
        ({"parameter": CALLBACKS, "when": [{"parameter": CHUNKSIZE}]}, ", or .value."),
    ],
)
def test_an_effect_that_is_written_wrongly(effect: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        SimulatedSection.model_validate({"effects": [effect]})


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ({"effects": [callbacks("hump", at=60_000)]}, r"effects\.0\.at: .* is 60000 already"),
        ({"effects": [callbacks("hump", at=0)]}, r"effects\.0\.at: .* write a number above 0"),
        ({"effects": [callbacks("peak", at=9, width=1)]}, r"width: .* write a number above 1"),
        (
            {"effects": [{"parameter": "cache_manager.memcache", "shape": "linear", "at": 1}]},
            "cache_manager.memcache has no scale for a linear; give it a 'value'",
        ),
        (
            {"effects": [{"parameter": "fileserver.rx_max_mtu", "shape": "hump", "at": 1}]},
            "fileserver.rx_max_mtu has no default that a hump could start from",
        ),
        (
            {"effects": [{"parameter": CALLBACKS, "changes": {"small-rite": 0.1}}]},
            r"effects\.0\.changes: .* 'small-rite'; did you mean 'small-write'",
        ),
        ({"noise_factors": {"x": 2}}, "noise_factors: the workload has no component 'x'"),
        ({"costs": {"restart": {"disk": 2}}}, r"costs\.restart: no part 'disk'"),
        ({"after_restart": {"disk": 0.1}}, r"after_restart: no part 'disk'"),
    ],
)
def test_an_impossible_world(section: dict[str, object], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        world_of(SimulatedSection.model_validate(section), SPACES, COMPONENTS)


def test_nothing_that_is_accepted_overflows() -> None:
    most = {"parameter": CHUNKSIZE, "low": 0, "change": 1000.0}
    peak = {"parameter": CHUNKSIZE, "shape": "peak", "at": 1e12, "width": 1e-3, "change": 1000.0}
    hump = {"parameter": CHUNKSIZE, "shape": "hump", "at": 18.0001, "change": 1000.0}
    noise = {"noise": 10.0, "arm_noise": 10.0, "block_noise": 10.0, "drift": 10.0}
    load = {"mean": 1e-6, "sd": 1024.0, "effect": 10.0}
    truth = world(most, peak, hump, **noise, others=load, stolen=load)
    for trial in range(200):
        run = Run(1, "100", str(trial), trial)
        times = truth.times(run, Configuration.of({CHUNKSIZE: 24}), COMPONENTS)
        assert math.isfinite(times.total_s)
        assert min(times.seconds.values()) > 0.0
