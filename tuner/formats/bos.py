"""A demand-attach fileserver for bosserver: as ``bos`` commands, and as an entry of BosConfig.

However it receives a command, bosserver splits it at blanks and does not support quoting.
"""

from __future__ import annotations

import shlex

from tuner.formats.programs import FILESERVER
from tuner.services.form import Part, Whole, plain, shell

#: Debian's directory of the programs, and those after the fileserver in the order that bos expects.
_PLACE = "/usr/lib/openafs"
_COMPANIONS = ("davolserver", "salvageserver", "dasalvager")
INSTANCE = "dafs"
#: What to check before using anything that creates the instance.
MIND = (
    f"{Whole.mind}; the instance is called {INSTANCE} in it, its other programs have no options "
    "and it has no notifier: compare with what bos status -long shows"
)


def server_commands(part: Part) -> list[str]:
    """Return the command lines of the instance, the fileserver's first."""
    line = plain([f"{_PLACE}/{part.program}", *part.words])
    return [line, *(f"{_PLACE}/{name}" for name in _COMPANIONS)]


def steps(part: Part, server: str) -> list[list[str]]:
    """Return the commands that set the instance's options, in order.

    bos can only change them by recreating the instance; volumes are not touched.
    """
    about = [server, INSTANCE]
    return [
        ["bos", "stop", *about, "-wait", "-localauth"],
        ["bos", "delete", *about, "-localauth"],
        ["bos", "create", *about, "dafs", *server_commands(part), "-localauth"],
    ]


def words_of(create: list[str]) -> tuple[str, ...]:
    """Return the fileserver's options in a ``bos create`` command."""
    return tuple(create[create.index("dafs", 4) + 1].split()[1:])


class Bos(Whole):
    """See ``about``."""

    name = "bos"
    about = "`bos` commands that create the instance again with the options; SERVER is its address"
    where = "a shell on the server"
    mind = MIND
    programs = frozenset({FILESERVER})
    comment = "#"

    def write(self, part: Part) -> str:
        """See Format.write."""
        return "".join(f"{shell(step)}\n" for step in steps(part, "SERVER"))

    def read(self, text: str) -> tuple[str, ...]:
        """See Format.read."""
        commands = [shlex.split(line) for line in text.splitlines()]
        return words_of(next(c for c in commands if c[:2] == ["bos", "create"]))


class BosConfig(Whole):
    """See ``about``."""

    name = "bosconfig"
    about = "the entry of the instance in BosConfig; bosserver must be down while it is edited"
    where = "/etc/openafs/BosConfig"
    mind = MIND
    programs = frozenset({FILESERVER})
    comment = ""

    def write(self, part: Part) -> str:
        """See Format.write."""
        parms = [f"parm {command}" for command in server_commands(part)]
        return "\n".join([f"bnode dafs {INSTANCE} 1", *parms, "end"]) + "\n"

    def read(self, text: str) -> tuple[str, ...]:
        """See Format.read."""
        first = next(line for line in text.splitlines() if line.startswith("parm "))
        return tuple(first.split()[2:])
