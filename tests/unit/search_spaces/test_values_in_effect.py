"""Violations, clamped values and expected read-back values."""

from __future__ import annotations

import pytest

from search_spaces import Space, SpaceError, Value, load

SERVER = load("openafs-fileserver-1.8")
CLIENT = load("openafs-cache-manager-fuse-1.8")
WINDOWS = load("openafs-windows-client")
ROOMY = {"net_core_rmem_max": 33554432, "memory_bytes": 1 << 36, "nofile": 524288}


@pytest.mark.parametrize(
    ("values", "part"),
    [
        ({"threads": 100, "small_vnodes": 200}, "small_vnodes: 200 is below 201"),
        ({"udp_buffer": 65537 * 1024}, "udp_buffer: 67109888 is above 33554432"),
        ({"preset": "L", "threads": 9}, "threads may not be set: a preset sets it"),
        ({"callbacks": 9999}, "callbacks: 9999 is below 10000, which the program refuses"),
        ({"volume_hash": 65}, "volume_hash: 65 is above 28, which the program refuses"),
        ({"volume_hash": -70}, "volume_hash: -70 is below 6, which the program refuses"),
        ({"volume_cache": 100}, "which the program clamps"),
        ({"tread": 9}, "did you mean 'threads'?"),
        ({"threads": "9"}, "threads: '9' is not a whole number"),
        ({"threads": True}, "threads: True is not a whole number"),
        ({"jumbograms": 1}, "jumbograms: 1 is not true or false"),
        ({"sync_behavior": "none"}, "'none' is not one of always, onclose, never"),
        ({"callbacks": 600_000_000}, "more than half of the server's memory"),
    ],
)
def test_a_violation_is_a_sentence(values: dict[str, Value], part: str) -> None:
    messages = SERVER.violations(values, ROOMY)
    assert len(messages) == 1
    assert part in messages[0]
    assert values != SERVER.parse([]).values


def test_a_computed_limit_says_how_it_was_computed_and_a_number_is_not_repeated() -> None:
    assert SERVER.violations({"threads": 100, "small_vnodes": 200}, ROOMY)[0].startswith(
        "small_vnodes: 200 is below 201 (2 * threads + 1): "
    )
    assert CLIENT.violations({"daemons": 16}) == [
        "daemons: 16 is above 15: the queue of background work holds 15 requests",
    ]


def test_a_long_command_line_is_a_violation() -> None:
    values = {p.name: p.low for p in SERVER.parameters if p.kind.numeric}
    messages = SERVER.violations({**values, "busy_threshold": 600}, ROOMY)
    assert any("245 characters" in sentence for sentence in messages)


def test_clamped_values_have_a_reason() -> None:
    expected = SERVER.effective(
        {"threads": 128, "small_vnodes": 200, "udp_buffer": 1 << 20, "volume_cache": 50}
    )
    small = expected["small_vnodes"]
    assert (small.key, small.reading, small.requested) == ("xstat_fs.vcache_S_Entries", 257, 200)
    assert small.clamped
    assert "two per thread plus one" in small.why
    buffer = expected["udp_buffer"]
    assert (buffer.key, buffer.reading, buffer.value) == ("ss.rb", 2 * 212992, 212992)
    assert "net.core.rmem_max" in buffer.why
    assert expected["volume_cache"].reading == 200
    assert expected["threads"].reading == 130
    assert not expected["threads"].clamped


def test_ignored_values_leave_the_default() -> None:
    expected = SERVER.effective({"udp_buffer": 12800})["udp_buffer"]
    assert (expected.value, expected.requested, expected.clamped) == (65536, 12800, True)


@pytest.mark.parametrize(
    ("space", "name", "value", "message"),
    [
        (WINDOWS, "block_size", 1, "block_size: 1 is special: a number of 4096-byte pages"),
        (WINDOWS, "block_size", 1024, "block_size: 1024 is special: a number of 4096-byte pages"),
        (WINDOWS, "block_size", 1025, "1025 is below 4096, which the program ignores"),
        (WINDOWS, "block_size", 0, "0 is below 4096, which the program ignores"),
        (SERVER, "dir_buffers", 0, "0 is special: the server dies on the first directory access"),
        (load("openafs-client-runtime"), "cache_size", 0, "0 is special: the size at the start"),
    ],
)
def test_a_special_value_is_not_judged_by_its_number(
    space: Space, name: str, value: int, message: str
) -> None:
    for messages in (space.violations({name: value}), space.impossible({name: value})):
        assert len(messages) == 1
        assert messages[0].endswith(message)


def test_a_special_value_is_not_ignored() -> None:
    assert WINDOWS.in_effect({"block_size": 64})["block_size"] == 64
    assert WINDOWS.in_effect({"block_size": 1025})["block_size"] == 4096


def test_a_number_that_means_unset_has_the_default_in_effect() -> None:
    values: dict[str, Value] = {"blocks": 200000, "chunksize": 0, "files": 5000}
    assert CLIENT.violations(values) == []
    expected = CLIENT.effective(values)["chunksize"]
    assert (expected.reading, expected.value, expected.requested) == (1 << 18, 18, 0)
    assert expected.why == "choose by the size of the cache"
    runtime = load("openafs-client-runtime")
    facts = {"boot_blocks": 300000, "chunk_kib": 1024}
    assert runtime.in_effect({"cache_size": 0}, facts)["cache_size"] == 300000


def test_file_descriptors_limit_the_threads() -> None:
    expected = SERVER.effective({"threads": 200}, {"nofile": 100})["threads"]
    assert (expected.value, expected.clamped) == (68, True)


def test_a_preset_shows_in_what_it_sets() -> None:
    expected = SERVER.effective({"preset": "L"})
    assert {name: e.value for name, e in expected.items()} == {
        "threads": 128,
        "dir_buffers": 120,
        "large_vnodes": 600,
        "small_vnodes": 600,
        "volume_cache": 600,
        "callbacks": 64000,
    }


def test_nothing_set_expects_nothing() -> None:
    assert SERVER.effective({}) == {}
    assert SERVER.violations({}) == []


@pytest.mark.parametrize(
    ("values", "readings"),
    [
        ({"memcache": True, "blocks": 65536, "chunksize": 14}, {"chunksize": 16384}),
        ({"chunksize": 20}, {"chunksize": 1048576}),
        ({"files": 9000, "dcache": 4000}, {"files": 9000, "dcache": 4000}),
    ],
)
def test_the_client_shows_sizes(values: dict[str, Value], readings: dict[str, Value]) -> None:
    expected = CLIENT.effective(values)
    assert {name: expected[name].reading for name in readings} == readings
    assert expected.keys() == values.keys()


@pytest.mark.parametrize(
    ("blocks", "memcache", "chunksize"),
    [
        (100000, False, 18),
        (500000, False, 19),
        (1000000, False, 20),
        (100000, True, 16),
        (10000, True, 13),
        (4000000, True, 21),
        (65536, True, 15),
        (65535, True, 15),
    ],
)
def test_the_client_chooses_its_chunks(blocks: int, memcache: bool, chunksize: int) -> None:
    default = CLIENT["chunksize"].defaults["none"]
    assert callable(default)
    assert default({"blocks": blocks, "memcache": memcache}) == chunksize


def test_memory_grows_with_the_requested_values() -> None:
    plain = SERVER.memory_bytes({})
    assert SERVER.memory_bytes({"callbacks": 1_060_000}) - plain == 64_000_000
    assert CLIENT.memory_bytes({"memcache": True, "blocks": 200000}) > 200000 * 1024


def test_fit_moves_only_what_is_wrong() -> None:
    values = {"threads": 100, "small_vnodes": 10, "udp_buffer": 1 << 22, "large_vnodes": 5000}
    assert SERVER.fit(values) == {**values, "small_vnodes": 201, "udp_buffer": 131072}
    assert SERVER.fit({"preset": "L", "threads": 12, "dir_buffers": 90}) == {"preset": "L"}


def test_only_the_programs_own_number_of_chunk_files_keeps_it_from_starting() -> None:
    refuses = "without -files, the program refuses to start"
    (message,) = CLIENT.violations({"chunksize": 12})
    assert message.startswith(refuses)
    container = next(preset for preset in CLIENT.presets if preset.name == "container")
    assert not any(refuses in each for each in CLIENT.violations(container.values))
    assert CLIENT.violations({"blocks": 575000, **container.values}) == []


@pytest.mark.parametrize("value", [99_999, -100])
def test_an_estimate_of_memory_names_the_value_that_the_program_refuses(value: int) -> None:
    with pytest.raises(SpaceError, match=rf"{SERVER.name}: volume_hash: {value} is .*refuses$"):
        SERVER.memory_bytes({"volume_hash": value})
