"""Sampled configurations are valid, reproducible and cover their ranges."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from search_spaces import Chance as ByChance
from search_spaces import Kind, Space, SpaceError, Value, answers, draw, load, names

from .answers import Chance, FixedAnswers

SERVER = load("openafs-fileserver-1.8")
CLIENT = load("openafs-cache-manager-fuse-1.8")
RISKS = ("durability", "security", "availability")
SPACES = [load(name) for name in names()] + [
    load(name).narrow(only=[p.name for p in load(name).parameters], allow_risk=RISKS)
    for name in names()
]
HOSTS = st.fixed_dictionaries(
    {},
    optional={
        "net_core_rmem_max": st.integers(4096, 1 << 26),
        "memory_bytes": st.integers(1 << 28, 1 << 36),
        "nofile": st.integers(256, 1 << 20),
        "cache_partition_bytes": st.integers(1 << 28, 1 << 40),
        "cacheinfo_blocks": st.integers(20000, 1 << 20),
        "net_core_wmem_max": st.integers(4608, 1 << 26),
        "memory_cache": st.integers(0, 1),
        "chunk_kib": st.integers(8, 1 << 15),
        "boot_blocks": st.integers(20000, 1 << 20),
    },
)


def ids(space: Space) -> str:
    return f"{space.name} {len(space.searched)}"


@pytest.mark.slow
@pytest.mark.parametrize("space", SPACES, ids=ids)
@given(seed=st.integers(0, 2**32), facts=HOSTS, probability=st.sampled_from([0.2, 0.7, 1.0]))
def test_every_sample_is_valid(  # type: ignore[no-untyped-def]
    space, seed, facts, probability
):
    values = draw(space, Chance(seed, probability), facts)
    assert space.violations(values, facts) == []


@pytest.mark.slow
@pytest.mark.parametrize("space", SPACES, ids=ids)
def test_everything_searched_is_proposed_over_its_range(space: Space) -> None:
    ask = Chance(1, 0.5)
    facts = {"net_core_rmem_max": 1 << 26, "memory_bytes": 1 << 38, "nofile": 1 << 20}
    facts |= {"cache_partition_bytes": 1 << 40, "fixed_command_length": 0}
    if "rmem_max" in space.by_name:
        del facts[
            "net_core_rmem_max"
        ]  # this space itself raises that limit from its original value
    samples = [draw(space, ask, facts) for _ in range(1500)]
    for parameter in space.searched:
        sampled = [values[parameter.name] for values in samples if parameter.name in values]
        assert 100 < len(sampled) < 1400, parameter.name
        if parameter.kind in (Kind.INT, Kind.LOG_INT):
            assert len(set(sampled)) > min(60, (parameter.high - parameter.low) // 2), (
                parameter.name
            )
        elif parameter.kind is Kind.CATEGORICAL:
            assert set(sampled) == set(parameter.candidates)
        elif parameter.kind is Kind.POWER_OF_TWO:
            assert {parameter.low, parameter.high} <= set(sampled), parameter.name
    assert all(len(ranges) == 1 for ranges in ask.ranges.values())


def test_a_preset_and_its_values_never_come_together() -> None:
    ask = Chance(3)
    samples = [draw(SERVER, ask) for _ in range(300)]
    with_preset = [values for values in samples if "preset" in values]
    assert len(with_preset) > 50
    assert not any(values.keys() & set(SERVER.preset_fields) for values in with_preset)


@pytest.mark.parametrize("space", SPACES, ids=ids)
@given(seed=st.integers(0, 2**32))
def test_answers_reproduce_a_sample(space, seed):  # type: ignore[no-untyped-def]
    values = draw(space, Chance(seed))
    replayed = draw(space, FixedAnswers(answers(space, values)))
    assert space.violations(replayed) == []
    inside = all(
        not space[n].kind.numeric or space[n].low <= v <= space[n].high for n, v in values.items()
    )
    lone = "busy_threshold" in values and not space["busy_threshold"].searched
    if inside and not lone:
        assert replayed == values


def test_what_is_not_searched_stays_as_found() -> None:
    space = SERVER.narrow(only=["udp_buffer"])
    initial: dict[str, Value] = {"sync_behavior": "always", "preset": "L", "busy_threshold": 900}
    samples = [draw(space, Chance(seed), initial=initial) for seed in range(20)]
    assert all(values.items() >= initial.items() for values in samples)
    assert any("udp_buffer" in values for values in samples)


def test_a_preset_as_found_gives_way_to_a_search_of_its_values() -> None:
    space = SERVER.narrow(only=["threads"])
    samples = [draw(space, Chance(seed), initial={"preset": "L"}) for seed in range(30)]
    assert all(values["callbacks"] == 64000 for values in samples)
    assert all("preset" not in values for values in samples)
    assert any("threads" in values for values in samples)
    assert any("threads" not in values for values in samples)


def test_packets_do_not_move_the_busy_threshold() -> None:
    space = SERVER.narrow(also=["rx_packets"])
    samples = [draw(space, Chance(seed)) for seed in range(60)]
    with_packets = [values for values in samples if "rx_packets" in values]
    assert with_packets
    assert all(values["busy_threshold"] == 600 for values in with_packets)


def test_a_kernel_limit_that_is_raised_first_lets_a_program_ask_for_more() -> None:
    host, space = load("host-network"), SERVER.narrow(only=["udp_buffer"])
    facts = {"net_core_rmem_max": 212992, "memory_bytes": 1 << 34}
    ask = Chance(5, 1.0)
    alone = [draw(space, ask, facts) for _ in range(50)]
    assert max(int(values["udp_buffer"]) for values in alone) == 131072
    together = []
    for _ in range(50):
        limits = draw(host, ask, facts)
        raised = host.supplies(limits, facts)
        assert raised == {
            **facts,
            "net_core_rmem_max": limits["rmem_max"],
            "net_core_wmem_max": limits["wmem_max"],
        }
        values = draw(space, ask, raised)
        assert space.violations(values, raised) == []
        assert not space.effective(values, raised)["udp_buffer"].clamped
        together.append(values["udp_buffer"])
    assert max(int(value) for value in together) == 16777216
    assert facts["net_core_rmem_max"] == 212992


def test_a_kernel_limit_is_never_lowered() -> None:
    host, ask = load("host-network"), Chance(6, 1.0)
    facts = {"net_core_rmem_max": 8_000_000, "net_core_wmem_max": 300_000}
    samples = [draw(host, ask, facts) for _ in range(100)]
    assert min(int(values["rmem_max"]) for values in samples) >= 8_000_000
    assert host.violations({"rmem_max": 4194304}, facts)
    assert host.supplies({}, facts) == facts


def test_the_seeded_chance_draws_the_same_again_and_covers_its_ranges() -> None:
    first, second = ByChance(7), ByChance(7)
    one = [draw(SERVER, first) for _ in range(50)]
    assert one == [draw(SERVER, second) for _ in range(50)]
    assert len({tuple(values.items()) for values in one}) > 25
    assert {first.integer("x", 3, 6, False) for _ in range(200)} == {3, 4, 5, 6}
    assert {first.integer("x", 1, 4, True) for _ in range(300)} == {1, 2, 3, 4}
    middle = sorted(first.integer("x", 1, 1_000_000, True) for _ in range(1001))[500]
    assert 300 < middle < 3000
    assert {first.choice("x", ("a", "b")) for _ in range(50)} == {"a", "b"}


def test_a_small_host_gets_small_configurations() -> None:
    space = SERVER.narrow(only=["threads", "callbacks", "small_vnodes", "udp_buffer"])
    small, ample = {"memory_bytes": 80_000_000}, {"memory_bytes": 1 << 38}
    for seed in range(60):
        values = draw(space, Chance(seed, 1.0), small)
        unbounded = draw(space, Chance(seed, 1.0), ample)
        assert space.memory_bytes(values, small) <= 40_000_000
        if space.memory_bytes(unbounded) > 40_000_000:
            # Lowered no more than necessary: one more of the parameter lowered last is too much.
            assert values.keys() == unbounded.keys()
            lowered = [
                name for name in ("callbacks", "small_vnodes", "udp_buffer") if name in values
            ]
            lowered = [name for name in lowered if values[name] != unbounded[name]]
            assert space.violations({**values, lowered[-1]: int(values[lowered[-1]]) + 1}, small)
        else:
            assert values == unbounded


def test_a_host_that_no_configuration_fits_is_an_error() -> None:
    with pytest.raises(SpaceError, match=r"no configuration fits this host: .* memory"):
        draw(SERVER, Chance(0), {"memory_bytes": 4096})


@pytest.mark.parametrize(
    ("initial", "threshold"), [({"preset": "L"}, 300), ({"rx_packets": 2000}, 3000)]
)
def test_packets_as_found_leave_the_busy_threshold_as_found(
    initial: dict[str, Value], threshold: int
) -> None:
    space = SERVER.narrow(only=["threads"])
    for seed in range(20):
        values = draw(space, Chance(seed), initial=initial)
        assert "busy_threshold" not in values
        assert space.in_effect(values)["busy_threshold"] == threshold
        assert space.fit(values, initial=initial) == values
    fit = SERVER.narrow(also=["rx_packets"]).fit
    assert fit(initial, initial=initial) == initial
    assert fit({"rx_packets": 400}, initial=initial)["busy_threshold"] == 600


def test_packets_that_the_campaign_fixes_do_not_move_the_busy_threshold() -> None:
    space = SERVER.narrow(only=["threads"], fix={"rx_packets": 400})
    values = draw(space, Chance(1), initial={"rx_packets": 400})
    assert (values["rx_packets"], values["busy_threshold"]) == (400, 600)


@pytest.mark.parametrize(
    ("space", "initial"),
    [
        (SERVER.narrow(only=["threads"]), {"udp_buffer": 1048576}),
        (CLIENT.narrow(only=["chunksize"]), {"files": 50000}),
        (SERVER.narrow(only=["threads", "dir_buffers"]), {"callbacks": 400_000_000}),
    ],
    ids=["kernel-limit", "bound", "memory"],
)
def test_what_is_outside_its_limits_stays_as_found(space: Space, initial: dict[str, Value]) -> None:
    assert space.violations(initial)
    assert space.violations(initial, None, initial) == []
    samples = [draw(space, Chance(seed), initial=initial) for seed in range(30)]
    for values in samples:
        assert values.items() >= initial.items()
        assert space.violations(values, None, initial) == []
        assert space.fit(values, initial=initial) == values
    assert len({tuple(values.items()) for values in samples}) > 3


def test_a_long_command_line_loses_what_is_searched_and_not_what_was_found() -> None:
    space = SERVER.narrow(only=["threads", "dir_buffers", "large_vnodes"])
    initial: dict[str, Value] = {"volume_hash": 11, "vlru_max": 16, "send_buffer": 16385}
    for length in (140, 220):
        facts = {"fixed_command_length": length, "memory_bytes": 1 << 36}
        samples = [draw(space, Chance(seed, 1.0), facts, initial) for seed in range(20)]
        for values in samples:
            assert values.items() >= initial.items()
            assert space.violations(values, facts, initial) == []
            assert space.fit(values, facts, initial) == values
            assert "threads" in values
    # What the campaign fixes is stronger than what was found.
    strict = SERVER.narrow(only=["threads"], fix={"dir_buffers": 4096, "large_vnodes": 65536})
    values = draw(strict, Chance(1), {"fixed_command_length": 190}, initial)
    assert strict.violations(values, {"fixed_command_length": 190}) == []
    assert not values.items() >= initial.items()


def test_a_number_that_means_unset_stays_and_limits_nothing() -> None:
    values: dict[str, Value] = {"blocks": 200000, "chunksize": 0, "files": 5000}
    assert CLIENT.fit(values) == values
    assert CLIENT.fit({**values, "memcache": True}) == {
        "memcache": True,
        "blocks": 200000,
        "chunksize": 0,
    }
    assert answers(CLIENT, values)["chunksize?"] is False
