"""Options in OpenAFS's own configuration files, which hold where a command line leaves them out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import pytest

import search_spaces
from tuner.errors import TestbedError
from tuner.hosts.connector import CommandResult, Connector
from tuner.services.openafs.option_file import (
    CLIENT_FILES,
    PLACES,
    SERVER_FILES,
    check_unset,
    options_set,
)

SERVER = search_spaces.load("openafs-fileserver-1.8")
CLIENT = search_spaces.load("openafs-cache-manager-linux-1.8")


class Files:
    """A host that has only these files."""

    host = "fs9"

    def __init__(self, contents: Mapping[str, str]) -> None:
        self._contents = contents

    def ask(self, argv: Sequence[str]) -> CommandResult:
        assert argv[:2] == ["cat", "--"]
        content = self._contents.get(argv[2])
        if content is None:
            return CommandResult(tuple(argv), 1, "", "No such file or directory")
        return CommandResult(tuple(argv), 0, content, "")


def host(contents: Mapping[str, str]) -> Connector:
    return cast("Connector", Files(contents))


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", ()),
        ("p = 64\n", ()),  # in no section
        ("[fileserver]\n  p = 64\n\tL=yes\n", ("p", "L")),
        ("[ fileserver ]\nudpsize = 1\n[vlserver]\np = 9\n", ("udpsize",)),
        ("[defaults]\njumbo = yes\n[fileserver]\n", ("jumbo",)),
        ("[fileserver]*\n# p = 64\n; s = 1\nsync = always # p = 3\n", ("sync",)),
        ("[fileserver]\np = 1\np = 2\n", ("p",)),
        ("include /etc/more\n[fileserver]\n", None),
        ("[fileserver]\nincludedir /etc/more\n", None),
    ],
)
def test_what_a_file_sets(text: str, names: tuple[str, ...] | None) -> None:
    assert options_set(text, "fileserver") == names


@pytest.mark.parametrize("path", SERVER_FILES)
def test_an_option_of_the_space_must_be_on_the_command_line(path: str) -> None:
    server = host({path: "[fileserver]\np = 64\nsyslog = yes\njumbo = yes\n"})
    with pytest.raises(
        TestbedError, match=rf"^fs9: {path} sets p, jumbo, also for .* line instead"
    ):
        check_unset(server, SERVER_FILES, "fileserver", SERVER)


def test_other_options_may_be_in_a_file() -> None:
    """The same for all configurations, they are not part of the question."""
    text = "[fileserver]\nauditlog = /var/log/audit\n[vlserver]\np = 16\n[afsd]\nmemcache = yes\n"
    check_unset(host({SERVER_FILES[0]: text}), SERVER_FILES, "fileserver", SERVER)
    check_unset(host({}), SERVER_FILES, "fileserver", SERVER)


@pytest.mark.parametrize("name", ["dcache", "cachedir", "mountdir"])
def test_a_client_file_must_not_name_another_cache(name: str) -> None:
    """It would not be wiped."""
    server = host({CLIENT_FILES[1]: f"[afsd]\ndynroot = yes\n{name} = 1\n"})
    with pytest.raises(TestbedError, match=f"sets {name}, also for"):
        check_unset(server, CLIENT_FILES, "afsd", CLIENT, PLACES)


def test_a_file_that_includes_others_is_refused() -> None:
    server = host({SERVER_FILES[0]: "includedir /etc/openafs/server.d\n"})
    with pytest.raises(TestbedError, match="includes other files, which fstune does not read"):
        check_unset(server, SERVER_FILES, "fileserver", SERVER)
