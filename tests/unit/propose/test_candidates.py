"""Candidates: always valid, whatever they are derived from, and the same for the same seed."""

from __future__ import annotations

import pytest

from tests.unit.propose.spaces import CLIENT, FACTS, SERVER, tunables
from tuner.model import Configuration
from tuner.propose.candidates import Candidates, unique
from tuner.propose.encoding import Tunable


def check_valid(configuration: Configuration) -> None:
    for space in (SERVER, CLIENT):
        assert space.violations(configuration.part(space.part), FACTS) == []


@pytest.mark.parametrize("seed", ["1", "2", "3"])
def test_all_are_valid_on_the_complete_spaces(seed: str) -> None:
    candidates = Candidates(tunables(), seed)
    draws = candidates.random(200)
    roots = [Configuration(), *draws[:5]]
    changed = candidates.changed(roots, draws, 300)
    for configuration in [*draws, *changed, *candidates.changed(changed[:9], changed, 200)]:
        check_valid(configuration)
    assert len(set(draws)) > 150
    assert len(set(changed)) > 100


def test_same_seed_same_candidates() -> None:
    one, again, other = (Candidates(tunables(), seed) for seed in ("1", "1", "2"))
    assert one.random(20) == again.random(20) != other.random(20)


def test_every_parameter_is_set_in_some_and_not_in_others() -> None:
    draws = [c.as_dict() for c in Candidates(tunables(), "1").random(300)]
    for space in (SERVER, CLIENT):
        for parameter in space.searched:
            name = f"{space.part}.{parameter.name}"
            count = sum(name in values for values in draws)
            assert 10 < count < 290, name


def test_a_variation_changes_few_settings() -> None:
    candidates = Candidates(tunables(), "1")
    donors = [c for c in candidates.random(50) if "cache_manager.memcache" not in c.as_dict()]
    for configuration in candidates.changed([Configuration()], donors, 100):
        assert len(configuration.as_dict()) <= 3 + len(candidates.valid({}).as_dict())


def test_an_invalid_value_is_moved_to_the_nearest_valid_one() -> None:
    nearest = Candidates(tunables(), "1").valid({"fileserver.threads": 1_000_000})
    check_valid(nearest)
    threads = nearest.as_dict()["fileserver.threads"]
    assert isinstance(threads, int)
    assert 256 <= threads < 1_000_000


def test_unique_keeps_the_order() -> None:
    a, b = Configuration.of({"x.y": 1}), Configuration.of({"x.y": 2})
    assert unique([b, a, b, a]) == [b, a]


def test_a_preset_as_found_is_expanded_for_a_value_that_it_sets() -> None:
    parts = {"fileserver": Tunable(SERVER, FACTS, {"preset": "L"})}
    valid = Candidates(parts, "1").valid
    both = valid({"fileserver.preset": "L", "fileserver.threads": 64}).part("fileserver")
    assert (both["threads"], both["callbacks"], both["small_vnodes"]) == (64, 64000, 600)
    assert "preset" not in both
    assert valid({"fileserver.preset": "L"}).part("fileserver") == {"preset": "L"}
    # Where no preset was found, one that is searched excludes its values, as before.
    without = Candidates(tunables(), "1").valid
    alone = without({"fileserver.preset": "L", "fileserver.threads": 64}).part("fileserver")
    assert alone == {"preset": "L"}


def test_a_value_that_the_campaign_fixes_takes_the_place_of_that_of_a_preset_as_found() -> None:
    space = SERVER.narrow(only=["dir_buffers"], fix={"threads": 64})
    valid = Candidates({"fileserver": Tunable(space, FACTS, {"preset": "L"})}, "1").valid
    own = valid({"fileserver.preset": "L"}).part("fileserver")
    assert (own["threads"], own["callbacks"]) == (64, 64000)
