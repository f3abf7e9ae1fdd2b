"""OpenAFS's own configuration files: options there are in effect unless a command line has them.

fstune tunes command lines. An option of the search space in such a file would hold wherever a
configuration leaves it unset, and what was found would not be what runs.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from search_spaces import Space
from tuner.errors import TestbedError
from tuner.hosts.connector import Connector

#: Where the files may be: the paths of Debian, and of OpenAFS itself.
SERVER_FILES = ("/etc/openafs/server/openafs-server.conf", "/usr/afs/etc/openafs-server.conf")
CLIENT_FILES = ("/etc/openafs/openafs-client.conf", "/usr/vice/etc/openafs-client.conf")
#: Sections that a program reads, besides that of its own name.
_FOR_ALL = "defaults"
#: Options of a client without a parameter that decide which cache is wiped, and what is mounted.
PLACES = ("cachedir", "mountdir", "confdir")


def check_unset(
    host: Connector,
    files: Sequence[str],
    section: str,
    space: Space,
    besides: Collection[str] = (),
) -> None:
    """Raise TestbedError if one of the files sets options of the space, or those ``besides``.

    ``section``: the program's own in the files.
    """
    flags = {flag.lstrip("-") for parameter in space.parameters for flag in parameter.flags}
    for path in files:
        result = host.ask(["cat", "--", path])
        if result.status != 0:
            continue  # usually there is none
        names = options_set(result.stdout, section)
        if names is None:
            raise TestbedError(
                f"{host.host}: {path} includes other files, which fstune does not read: have all "
                "options of the programs that it tunes on their command lines"
            )
        if concerned := [name for name in names if name in flags.union(besides)]:
            raise TestbedError(
                f"{host.host}: {path} sets {', '.join(concerned)}, also for configurations that "
                "leave it unset: put it into the program's command line instead"
            )


def options_set(text: str, section: str) -> tuple[str, ...] | None:
    """The options that such a file sets for the program of a section, in its order; None if it
    includes other files.
    """
    names: dict[str, None] = {}
    is_read = False
    for line in map(str.strip, text.splitlines()):
        if re.match(r"include(dir)?\s", line):
            return None
        if heading := re.match(r"\[([^\]]*)\]", line):
            is_read = heading.group(1).strip() in (section, _FOR_ALL)
        elif is_read and (setting := re.match(r"([^\s#;={}]+)\s*=", line)):
            names[setting.group(1)] = None
    return tuple(names)
