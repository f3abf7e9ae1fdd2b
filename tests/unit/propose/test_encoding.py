"""Encoding of configurations: relative to the baseline, with similar values close together."""

from __future__ import annotations

import numpy as np

from tests.unit.propose.spaces import SMALL_CLIENT, SMALL_SERVER, small, tunables
from tuner.model import Configuration, Value
from tuner.propose.encoding import Encoding, Floats


def features(encoding: Encoding, **values: Value) -> Floats:
    by_name = {name.replace("__", "."): value for name, value in values.items()}
    row: Floats = encoding.features([Configuration.of(by_name)])[0]
    return row


def distance(encoding: Encoding, one: dict[str, Value], other: dict[str, Value]) -> float:
    return float(np.linalg.norm(features(encoding, **one) - features(encoding, **other)))


def test_the_baseline_is_the_origin() -> None:
    for settings in ({}, {"fileserver.threads": 64, "cache_manager.daemons": 4}):
        baseline = Configuration.of(settings)
        encoding = Encoding(tunables(), baseline)
        assert np.allclose(encoding.features([baseline]), 0.0)
        changed = Configuration.of({**settings, "fileserver.threads": 200})
        assert not np.allclose(encoding.features([changed]), 0.0)


def test_each_axis_has_its_own_features() -> None:
    encoding = Encoding(small(), Configuration())
    assert {axis.name for axis in encoding.axes} == {
        "fileserver.threads",
        "fileserver.dir_buffers",
        "cache_manager.daemons",
    }
    row = features(encoding, fileserver__threads=200)
    for axis, group in zip(encoding.axes, encoding.groups, strict=True):
        assert np.any(row[group] != 0.0) == (axis.name == "fileserver.threads")
    assert encoding.groups[-1].stop == encoding.width == len(row)


def test_not_set_is_near_the_programs_own_default() -> None:
    encoding = Encoding(small(), Configuration())
    parameter = SMALL_SERVER["dir_buffers"]
    default = SMALL_SERVER.in_effect({}, {})["dir_buffers"]
    assert isinstance(default, int)
    near = distance(encoding, {}, {"fileserver__dir_buffers": default})
    far = distance(encoding, {}, {"fileserver__dir_buffers": int(parameter.high)})
    assert near < far


def test_a_logarithmic_scale_counts_ratios() -> None:
    encoding = Encoding(small(), Configuration.of({"fileserver.threads": 6}))
    doublings = [
        distance(encoding, {"fileserver__threads": n}, {"fileserver__threads": 2 * n})
        for n in (8, 32, 100)
    ]
    assert max(doublings) < 1.5 * min(doublings)
    additions = [
        distance(encoding, {"fileserver__threads": n}, {"fileserver__threads": n + 8})
        for n in (8, 200)
    ]
    assert additions[0] > 3 * additions[1]


def test_a_plain_scale_counts_differences() -> None:
    encoding = Encoding(small(), Configuration.of({"cache_manager.daemons": 2}))
    assert not SMALL_CLIENT["daemons"].kind.value.startswith("log")
    one = distance(encoding, {"cache_manager__daemons": 3}, {"cache_manager__daemons": 5})
    other = distance(encoding, {"cache_manager__daemons": 9}, {"cache_manager__daemons": 11})
    assert 0.6 < one / other < 1.6


def test_nearer_values_are_more_alike() -> None:
    encoding = Encoding(small(), Configuration())
    of = [
        distance(encoding, {"fileserver__threads": 16}, {"fileserver__threads": n})
        for n in (16, 18, 24, 64)
    ]
    assert of == sorted(of)
    assert of[0] == 0.0


def test_words_are_all_different_and_false_is_not_set() -> None:
    encoding = Encoding(tunables(), Configuration())
    assert np.any(features(encoding, cache_manager__memcache=True))
    assert np.allclose(features(encoding, cache_manager__memcache=False), 0.0)
    assert np.any(features(encoding, fileserver__preset="L"))


def test_a_setting_that_is_not_searched_has_an_axis_once_it_was_tried() -> None:
    """For example, one that a preset sets, or that an initial configuration uses."""
    preset = Configuration.of({"fileserver.preset": "L", "fileserver.threads": 20})
    before = Encoding(small(), Configuration())
    assert np.allclose(before.features([Configuration.of({"fileserver.preset": "L"})]), 0.0)
    encoding = Encoding(small(), Configuration(), [preset])
    assert len(encoding.axes) == len(before.axes) + 1
    assert np.any(features(encoding, fileserver__preset="L"))


def test_an_interaction_is_present_where_both_are_changed() -> None:
    encoding = Encoding(small(), Configuration())
    pair = next(
        n
        for n, (one, other) in enumerate(encoding.pairs)
        if {encoding.axes[one].name, encoding.axes[other].name}
        == {"fileserver.threads", "cache_manager.daemons"}
    )
    rows = encoding.features(
        [
            Configuration.of({"fileserver.threads": 200}),
            Configuration.of({"cache_manager.daemons": 10, "fileserver.dir_buffers": 900}),
            Configuration.of({"fileserver.threads": 200, "cache_manager.daemons": 10}),
        ]
    )
    interaction = encoding.interaction(rows, pair)
    assert np.allclose(interaction[:2], 0.0)
    assert np.any(interaction[2] != 0.0)


def test_weights_and_effects_have_the_same_variance() -> None:
    """The mean squared length of an axis's features over its values is about 1."""
    encoding = Encoding(small(), Configuration())
    rng = np.random.default_rng(3)
    some = [int(n) for n in np.exp(rng.uniform(np.log(6), np.log(256), 300))]
    rows = encoding.features([Configuration.of({"fileserver.threads": n}) for n in some])
    assert 0.6 < float((rows**2).sum(axis=1).mean()) < 1.6
