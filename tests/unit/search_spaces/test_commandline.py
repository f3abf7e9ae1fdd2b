"""Rendering and parsing of command lines."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from search_spaces import Space, SpaceError, Value, draw, load, names

from .answers import Chance

SERVER = load("openafs-fileserver-1.8")
CLIENT = load("openafs-cache-manager-fuse-1.8")
EVERYTHING = [
    load(name).narrow(
        only=[p.name for p in load(name).parameters],
        allow_risk=["durability", "security", "availability"],
    )
    for name in names()
]


@pytest.mark.parametrize(
    ("line", "values", "rest"),
    [
        ("", {}, ()),
        ("/usr/lib/openafs/dafileserver -p 23", {"threads": 23}, ()),
        ("-udp 131072 -vlrum 9", {"udp_buffer": 131072, "vlru_max": 9}, ()),
        ("--udpsize=131072", {"udp_buffer": 131072}, ()),
        # A bare option does not end a preceding option that takes values.
        ("-p -jumbo 7", {"threads": 7, "jumbograms": True}, ()),
        ("-jumbo -nojumbo", {"jumbograms": True}, ()),
        ("-nojumbo", {"jumbograms": False}, ()),
        ("-L", {"preset": "L"}, ()),
        ("7 100 -L", {"dir_buffers": 100}, ("-implicit", "7")),
        ("-fs-state-dont-s -syslog -realm A B", {}, None),
        ("-offline-timeout -1 -d 1", {}, ("-offline-timeout", "-1", "-d", "1")),
        ("-syslog=daemon -sync never", {"sync_behavior": "never"}, ("-syslog", "daemon")),
        # Of 1.8.14 and later only.
        ("-cv -p 7", {"threads": 7}, ("-cve-2018-7168-enforce",)),
    ],
)
def test_a_command_line_of_the_server(
    line: str, values: dict[str, Value], rest: tuple[str, ...] | None
) -> None:
    parsed = SERVER.parse(shlex.split(line))
    if values.get("dir_buffers") == 100:
        # The next option after -implicit is -b; because -L is also given, -L is expanded.
        assert parsed.values["dir_buffers"] == 100
        assert parsed.values["threads"] == 128
        assert "preset" not in parsed.values
    else:
        assert parsed.values == values
    expected = ("-fs-state-dont-save", "-syslog", "-realm", "A", "B") if rest is None else rest
    assert parsed.rest == expected


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("-L -S", "-S and -L are mutually exclusive"),
        ("-p 4 5", "too many values after -p: '5'"),
        ("-p 4 -p 5", "too many values after -p: '5'"),
        ("-p -L", "-p lacks its value"),
        ("-p many", "'many' is not a number"),
        ("-p 99999999999999999999", "is not a number"),
        ("-p ٣", "is not a number"),
        ("-v 3", "unknown or ambiguous option '-v'"),
        ("--p 3", "unknown or ambiguous option '--p'"),
        ("-treads 3", "unknown or ambiguous option '-treads'"),
        ("-jumbo=1", "-jumbo takes no value"),
        ("-sync none", "did you mean 'onclose'?"),
        ("-k 12", "unknown or ambiguous option '-k'"),
    ],
)
def test_a_command_line_that_the_server_refuses(line: str, part: str) -> None:
    with pytest.raises(SpaceError) as error:
        SERVER.parse(shlex.split(line))
    assert part in str(error.value)
    assert "\n" not in str(error.value)


def test_the_client_passes_on_options_that_are_not_its_own() -> None:
    line = "afsd.fuse -dynroot -fakestat -cachedir /c -mountdir /afs -blocks 9000 -oallow_root"
    parsed = CLIENT.parse(line.split())
    assert parsed.values == {"blocks": 9000}
    own = ("-dynroot", "-fakestat", "-cachedir", "/c", "-mountdir", "/afs")
    assert parsed.rest == (*own, "-oallow_root")


OLD = load("openafs-fileserver-1.6")


@pytest.mark.parametrize(
    ("line", "values", "rest"),
    [
        ("/usr/afs/bin/dafileserver -p 23", {"threads": 23}, ()),
        # The last occurrence wins, and a value may look like an option.
        ("-p 23 -p 24", {"threads": 24}, ()),
        ("-jumbo -nojumbo", {"jumbograms": False}, ()),
        ("-nojumbo -jumbo", {"jumbograms": True}, ()),
        ("-offline-timeout -1", {}, ("-offline-timeout", "-1")),
        ("-syslog=9 -k 24", {}, ("-syslog", "9", "-k", "24")),
        ("-syslog -d 1", {}, ("-syslog", "-d", "1")),
        ("-sync delayed", {"sync_behavior": "delayed"}, ()),
    ],
)
def test_a_command_line_of_the_1_6_server(
    line: str, values: dict[str, Value], rest: tuple[str, ...]
) -> None:
    parsed = OLD.parse(shlex.split(line))
    assert (parsed.values, parsed.rest) == (values, rest)


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("-udp 70000", "'-udp' is no option, written in full (did you mean '-udpsize'?)"),
        ("-p=3", "'-p=3' is no option"),
        ("23", "'23' is no option"),
        ("-p", "-p lacks its value"),
        ("-p many", "'many' is not a number"),
        ("-L -S", "are mutually exclusive"),
        ("-config /etc", "'-config' is no option"),
    ],
)
def test_a_command_line_that_the_1_6_server_refuses(line: str, part: str) -> None:
    with pytest.raises(SpaceError) as error:
        OLD.parse(shlex.split(line))
    assert part in str(error.value)


RUNTIME = load("openafs-client-runtime")
HOST = load("host-network")
WINDOWS = load("openafs-windows-client")


@pytest.mark.parametrize(
    ("space", "line", "values", "rest"),
    [
        (HOST, "sysctl -w net.core.rmem_max=400000", {"rmem_max": 400000}, ()),
        (HOST, "net.core.rmem_max = 5\nnet.core.rmem_max = 6", {"rmem_max": 6}, ()),
        (HOST, "net.core.optmem_max=9", {}, ("net.core.optmem_max", "9")),
        (WINDOWS, "chunksize=20 Stats=9", {"chunk_size": 20, "stats": 9}, ()),
        (RUNTIME, "fs setcrypt off", {"crypt": "off"}, ()),
        (RUNTIME, "setcrypt -c on; fs prec -blocks 64", {"crypt": "on", "precache": 64}, ()),
        (RUNTIME, "bypassthreshold -1", {"bypass_threshold": -1}, ()),
        (RUNTIME, "flush a b ; fs sysname x", {}, ("flush", "a", "b", ";", "sysname", "x")),
    ],
    ids=lambda value: value.name if isinstance(value, Space) else None,
)
def test_settings_and_commands(
    space: Space, line: str, values: dict[str, Value], rest: tuple[str, ...]
) -> None:
    parsed = space.parse(shlex.split(line))
    assert (parsed.values, parsed.rest) == (values, rest)


@pytest.mark.parametrize(
    ("space", "line", "part"),
    [
        (HOST, "net.core.rmem=1", "unknown setting 'net.core.rmem' (did you mean"),
        (HOST, "net.core.rmem_max", "lacks its value; write net.core.rmem_max=VALUE"),
        (HOST, "net.core.rmem_max=", "lacks its value"),
        (HOST, "net.core.rmem_max=big", "'big' is not a number"),
        (RUNTIME, "set 3", "unknown or ambiguous command 'set'"),
        (RUNTIME, "fs setcrypt on ; fs", "fs lacks its command"),
        (RUNTIME, "fs setcrypt", "write setcrypt -crypt VALUE"),
        (RUNTIME, "fs setcrypt -crypt", "write setcrypt -crypt VALUE"),
        (RUNTIME, "fs storebehind -kbytes 3 -files x", "write storebehind -allfiles VALUE"),
        (RUNTIME, "fs setcrypt maybe", "'maybe' is not a valid word"),
    ],
    ids=lambda value: value.name if isinstance(value, Space) else None,
)
def test_settings_and_commands_that_are_refused(space: Space, line: str, part: str) -> None:
    with pytest.raises(SpaceError) as error:
        space.parse(shlex.split(line))
    assert part in str(error.value)
    assert "\n" not in str(error.value)


def test_lines_can_be_typed_as_they_are() -> None:
    assert SERVER.lines({"threads": 12, "jumbograms": True}) == ["-p 12 -jumbo"]
    assert HOST.lines({"wmem_max": 2, "rmem_max": 1}) == [
        "net.core.rmem_max=1",
        "net.core.wmem_max=2",
    ]
    runtime = RUNTIME.lines({"crypt": "off", "precache": 64})
    assert runtime == ["fs precache -blocks 64", "fs setcrypt -crypt off"]
    assert all(load(name).lines({}) == [] for name in names())


def test_the_order_of_options_is_that_of_the_space() -> None:
    values = {"udp_buffer": 131072, "jumbograms": True, "threads": 12}
    argv = ["-p", "12", "-udpsize", "131072", "-jumbo"]
    assert SERVER.render(values) == argv
    assert SERVER.render(dict(reversed(values.items()))) == argv


@pytest.mark.parametrize(
    ("values", "part"),
    [
        ({"thread": 3}, "no parameter 'thread' (did you mean 'threads'?)"),
        ({"threads": "3"}, "'3' is no int"),
        ({"threads": True}, "True is no"),
        ({"jumbograms": 1}, "1 is no boolean"),
        ({"preset": "M"}, "'M' is no categorical"),
    ],
)
def test_invalid_values_cannot_be_rendered(values: dict[str, Value], part: str) -> None:
    with pytest.raises(SpaceError) as error:
        SERVER.render(values)
    assert part.replace("is no int", "is no log_int") in str(error.value)


def test_an_option_of_newer_versions_only_is_kept() -> None:
    parsed = SERVER.parse(["-L", "-cve-2018-7168-enforce"])
    words = [*parsed.rest, *SERVER.render(parsed.values)]
    assert words == ["-cve-2018-7168-enforce", "-L"]
    assert SERVER.parse(words) == parsed


@pytest.mark.slow
@pytest.mark.parametrize("space", EVERYTHING, ids=lambda space: str(space.name))
@given(seed=st.integers(min_value=0, max_value=2**32))
def test_parsing_rendered_options_gives_the_same_values(space, seed):  # type: ignore[no-untyped-def]
    values = draw(space, Chance(seed))
    parsed = space.parse([space.program, *space.render(values)])
    assert parsed.values == values
    assert parsed.rest == ()


@pytest.mark.parametrize("name", names())
def test_published_options_keep_their_meaning(name: str) -> None:
    space = load(name)
    for preset in space.presets:
        again = space.parse([*space.render(preset.values), *preset.rest])
        assert (again.values, again.rest) == (preset.values, preset.rest)
        explicit = [word for word in preset.options.split() if word.startswith("-")]
        assert space.parse(shlex.split(preset.options)).values == preset.values
        assert len(explicit) <= len(preset.values) + len(preset.rest)


BOTH = "TCP_NODELAY IPTOS_LOWDELAY"
LINES = load(str(Path(__file__).parents[2] / "data" / "spaces" / "good" / "lines.yaml"))


@pytest.mark.parametrize(
    ("lines", "values", "rest"),
    [
        (["aio read size = 8"], {"size": 8}, ()),
        (["AIO readsize=8", "", "# x", " ; aio read size = 4"], {"size": 8}, ()),
        (["socket options = TCP_NODELAY  IPTOS_LOWDELAY "], {"sockets": BOTH}, ()),
        (["aio read size = 8", "aio read size = 16"], {"size": 16}, ()),
        (["log level = 3"], {}, ("log level = 3",)),
    ],
)
def test_lines_of_a_section(
    lines: list[str], values: dict[str, Value], rest: tuple[str, ...]
) -> None:
    parsed = LINES.parse(lines)
    assert (parsed.values, parsed.rest) == (values, rest)
    assert LINES.parse([*LINES.render(values), *rest]) == parsed


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("aio read sise = 8", "unknown setting 'aio read sise' (did you mean 'aio read size'?)"),
        ("[global]", "unknown setting '[global]'"),
        ("aio read size", "aio read size lacks its value; write aio read size = VALUE"),
        ("aio read size = ", "lacks its value"),
        ("aio read size = big", "'big' is not a number"),
        ("socket options = TCP", "'TCP' is not a valid word"),
    ],
)
def test_lines_that_are_refused(line: str, part: str) -> None:
    with pytest.raises(SpaceError) as error:
        LINES.parse([line])
    assert part in str(error.value)


def test_lines_are_rendered_one_by_one() -> None:
    values: dict[str, Value] = {"sockets": BOTH, "size": 2}
    assert LINES.render(values) == LINES.lines(values)
    assert LINES.lines(values) == ["aio read size = 2", f"socket options = {BOTH}"]
