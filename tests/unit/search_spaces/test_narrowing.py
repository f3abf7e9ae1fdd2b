"""Narrowing of spaces: searching fewer parameters, or more on purpose."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from search_spaces import SpaceError, draw, load
from search_spaces.model import HardLimits
from search_spaces.narrowing import _with_range

from .answers import Chance

SERVER = load("openafs-fileserver-1.8")
CLIENT = load("openafs-cache-manager-fuse-1.8")


def searched(**narrowing: Any) -> set[str]:
    return {p.name for p in SERVER.narrow(**narrowing).searched}


def test_only_performance_is_searched_by_default() -> None:
    assert {str(p.risk) for p in SERVER.searched} == {"performance"}
    assert {str(p.role) for p in SERVER.searched} == {"searched"}
    assert searched() == {p.name for p in SERVER.searched}


def test_narrowing_chooses_what_is_searched() -> None:
    default = searched()
    assert searched(only=["threads", "send_buffer"]) == {"threads", "send_buffer"}
    assert searched(also=["send_buffer"]) == default | {"send_buffer"}
    assert searched(allow_risk=["durability"]) == default | {"sync_behavior"}
    assert searched(fix={"udp_buffer": 131072}) == default - {"udp_buffer"}


def test_a_fixed_value_is_always_there() -> None:
    space = SERVER.narrow(fix={"threads": 64})
    samples = [draw(space, Chance(seed)) for seed in range(30)]
    assert all(values["threads"] == 64 for values in samples)
    assert all("preset" not in values for values in samples)
    assert len({tuple(values) for values in samples}) > 5


def test_a_fixed_value_counts_as_the_program_clamps_it() -> None:
    open_files = {"nofile": 4096}
    cached = SERVER.narrow(fix={"vhandle_max_cachesize": 100000})
    assert cached.fit({}, open_files) == {"vhandle_max_cachesize": 100000}
    threads = SERVER.narrow(fix={"threads": 16000})
    assert threads.fit({"large_vnodes": 400}, open_files)["large_vnodes"] == 2 * 4064 + 1


def test_a_range_is_respected() -> None:
    space = SERVER.narrow(only=["threads", "udp_buffer"], ranges={"threads": [10, 20]})
    samples = [draw(space, Chance(seed)) for seed in range(60)]
    assert {v["threads"] for v in samples if "threads" in v} <= set(range(10, 21))
    words = SERVER.narrow(
        only=["sync_behavior"], allow_risk=["durability"], ranges={"sync_behavior": ["never"]}
    )
    samples = [draw(words, Chance(seed)) for seed in range(10)]
    assert {v["sync_behavior"] for v in samples if v} == {"never"}


def test_no_limit_moves_a_value_out_of_a_range() -> None:
    """The limits of dcache and files depend on other settings."""
    ranges = {"dcache": (5000, 20000), "files": (1000, 30000)}
    space = CLIENT.narrow(ranges=ranges)
    assert space.fit({"files": 1000, "dcache": 6000}) == {"files": 1000}
    for seed in range(300):
        sample = draw(space, Chance(seed))
        for name, (low, high) in ranges.items():
            assert low <= int(sample.get(name, low)) <= high


def test_narrowing_does_not_modify_the_original_space() -> None:
    before = load("openafs-fileserver-1.8")
    SERVER.narrow(only=["threads"], ranges={"threads": [10, 20]})
    assert before.parameters == SERVER.parameters


@pytest.mark.parametrize(
    ("narrowing", "part"),
    [
        ({"only": ["thread"]}, "only: no parameter 'thread' (did you mean 'threads'?)"),
        ({"also": ["udpsize"]}, "no parameter 'udpsize' (did you mean 'udp_buffer'?)"),
        ({"only": ["-p"]}, "no parameter '-p' (did you mean 'threads'?)"),
        ({"fix": {"treads": 1}}, "fix: no parameter 'treads' (did you mean 'threads'?)"),
        ({"only": "threads"}, "only: 'threads' is a word, not a list"),
        ({"fix": {"threads": "9"}}, "fix: threads: '9' is not a whole number"),
        ({"fix": {"threads": 5}}, "fix: threads: 5 is outside 6..16376"),
        ({"fix": {"callbacks": 1}}, "which the program refuses"),
        ({"fix": {"threads": 9}, "only": ["threads"]}, "fix: threads is also in only"),
        ({"fix": {"threads": 9, "preset": "L"}}, "threads may not be set: a preset sets it"),
        ({"fix": {"sync_behavior": "never"}}, "add durability to allow_risk"),
        ({"only": ["jumbograms"]}, "jumbograms has the risk class availability"),
        ({"allow_risk": ["durable"]}, "no risk class 'durable' (did you mean 'durability'?)"),
        ({"ranges": {"threads": [20, 10]}}, "range: threads: low 20 is above high 10"),
        ({"ranges": {"threads": [1, 10]}}, "range: threads: 1 is outside 6..16376"),
        ({"ranges": {"threads": [10]}}, "[10] is not [low, high]"),
        ({"ranges": {"threads": "10"}}, "'10' is not a list"),
        ({"ranges": {"threads": ["a", "b"]}}, "'a' is not a whole number"),
        ({"ranges": {"udp_buffer": [65536, 100000]}}, "100000 is not a power of two"),
        ({"ranges": {"udp_buffer": [0, 65536]}}, "udp_buffer: 0 is outside 65536.."),
        ({"ranges": {"send_buffer": [16384, 20000]}}, "send_buffer is not searched"),
        ({"ranges": {"preset": ["M"]}}, "'M' is not one of S, L"),
        ({"ranges": {"preset": []}}, "the list is empty"),
        ({"ranges": {"jumbograms": [True]}, "allow_risk": ["availability"]}, "has no range"),
    ],
)
def test_an_impossible_narrowing_is_an_error(narrowing: dict[str, Any], part: str) -> None:
    with pytest.raises(SpaceError) as error:
        SERVER.narrow(**narrowing)
    assert part in str(error.value)
    assert str(error.value).startswith("openafs-fileserver-1.8: ")
    assert "\n" not in str(error.value)
    assert "None" not in str(error.value)


def test_zero_is_not_a_power_of_two_where_the_program_sets_no_limit_either() -> None:
    parameter = replace(SERVER["udp_buffer"], hard=HardLimits())
    with pytest.raises(SpaceError, match="udp_buffer: 0 is not a power of two"):
        _with_range(SERVER, parameter, [0, 65536])


def test_a_client_with_its_cache_in_memory() -> None:
    space = CLIENT.narrow(fix={"memcache": True})
    samples = [draw(space, Chance(seed, 1.0)) for seed in range(20)]
    assert all(values["memcache"] is True for values in samples)
    assert not any(values.keys() & {"files", "dcache"} for values in samples)
