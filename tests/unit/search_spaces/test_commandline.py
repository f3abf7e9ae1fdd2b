"""Command lines, both ways."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from search_spaces import SpaceError, Value, draw, load, names

from .deciders import Chance

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
        # A bare option does not end the one that waits for its value.
        ("-p -jumbo 7", {"threads": 7, "jumbograms": True}, ()),
        ("-jumbo -nojumbo", {"jumbograms": True}, ()),
        ("-nojumbo", {"jumbograms": False}, ()),
        ("-L", {"preset": "L"}, ()),
        ("7 100 -L", {"dir_buffers": 100}, ("-implicit", "7")),
        ("-fs-state-dont-s -syslog -realm A B", {}, None),
        ("-offline-timeout -1 -d 1", {}, ("-offline-timeout", "-1", "-d", "1")),
        ("-syslog=daemon -sync never", {"sync_behavior": "never"}, ("-syslog", "daemon")),
    ],
)
def test_a_command_line_of_the_server(
    line: str, values: dict[str, Value], rest: tuple[str, ...] | None
) -> None:
    parsed = SERVER.parse(shlex.split(line))
    if values.get("dir_buffers") == 100:
        # -b comes next after -implicit, and -L with it becomes the values that -L stands for.
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
        ("-L -S", "-S and -L exclude each other"),
        ("-p 4 5", "too many values after -p: '5'"),
        ("-p 4 -p 5", "too many values after -p: '5'"),
        ("-p -L", "-p lacks its value"),
        ("-p many", "'many' is no number"),
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


def test_the_client_hands_on_options_that_are_not_its_own() -> None:
    line = "afsd.fuse -dynroot -fakestat -cachedir /c -mountdir /afs -blocks 9000 -oallow_root"
    parsed = CLIENT.parse(line.split())
    assert parsed.values == {"blocks": 9000}
    own = ("-dynroot", "-fakestat", "-cachedir", "/c", "-mountdir", "/afs")
    assert parsed.rest == (*own, "-oallow_root")


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
def test_what_cannot_be_rendered(values: dict[str, Value], part: str) -> None:
    with pytest.raises(SpaceError) as error:
        SERVER.render(values)
    assert part.replace("is no int", "is no log_int") in str(error.value)


@pytest.mark.parametrize("space", EVERYTHING, ids=lambda space: str(space.name))
@given(seed=st.integers(min_value=0, max_value=2**32))
def test_what_is_rendered_means_the_same_when_parsed(space, seed):  # type: ignore[no-untyped-def]
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
        assert len(explicit) <= len(preset.values) + len(preset.rest)
