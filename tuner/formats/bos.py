"""A demand-attach fileserver for bosserver: as ``bos`` commands, and as an entry of BosConfig.

However it receives a command, bosserver splits it at blanks and does not support quoting.
"""

from __future__ import annotations

import shlex

from tuner.formats.programs import FILESERVER
from tuner.services.form import Part, Whole, plain, shell

#: Debian's directory of the programs, and those after the fileserver in the order that bos expects.
PLACE = "/usr/lib/openafs"
_COMPANIONS = ("davolserver", "salvageserver", "dasalvager")
INSTANCE = "dafs"
#: What to check before using anything that creates the instance.
MIND = (
    f"{Whole.mind}; the instance is called {INSTANCE} in it, its programs are in Debian's {PLACE} "
    "(upstream's are in /usr/afs/bin), those besides the fileserver have no options and it has no "
    "notifier: compare with what bos status -long shows"
)
#: What to do if that shows something else: two sentences, for "here" in a text.
OTHERWISE = (
    f"Replace {PLACE} here by the directory of your programs (upstream: /usr/afs/bin).",
    f"Replace {INSTANCE} here, as the name of the instance, by the name of yours.",
)
#: What to do if another program has options or the instance has a notifier: the first half of a
#: sentence.
ADD_IT = (
    "Add it to 'bos create' here (a program with its options is one argument; -notifier PROGRAM)"
)


def server_commands(part: Part) -> list[str]:
    """Return the command lines of the instance, the fileserver's first."""
    first, *others = programs(part)
    return [plain([first, *part.words]), *others]


def programs(part: Part) -> list[str]:
    """Return the paths of the instance's programs, the fileserver's first.

    bosserver creates no instance with one that does not exist, so before the present instance is
    deleted, ``status`` must show it with all of them.
    """
    return [f"{PLACE}/{name}" for name in (part.program, *_COMPANIONS)]


def status(server: str) -> list[str]:
    """Return the command that shows the instance with the command lines of its programs."""
    return ["bos", "status", server, INSTANCE, "-long", "-localauth"]


def restricted(server: str) -> list[str]:
    """Return the command that shows whether bosserver is in restricted mode, in which it stops an
    instance, but neither deletes nor creates one. One of 1.6 may not know that mode.
    """
    return ["bos", "getrestricted", server, "-localauth"]


#: What it prints in that mode.
IS_RESTRICTED = "mode is on"


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


_SERVER = "SERVER"
_CHECK = f"""\
# Without its programs bosserver does not create the instance, and the old one is deleted by then.
# So first see that its commands are in {PLACE}, as Debian has them, in the output of
#     {shell(status(_SERVER))}
# If not:
#     {OTHERWISE[0]}
#     {OTHERWISE[1]}
# In restricted mode it only stops the old one. This must not print "Restricted {IS_RESTRICTED}":
#     {shell(restricted(_SERVER))}
"""


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
        return _CHECK + "".join(f"{shell(step)}\n" for step in steps(part, _SERVER))

    def read(self, text: str) -> tuple[str, ...]:
        """See Format.read."""
        commands = [shlex.split(line) for line in text.splitlines()]
        return words_of(next(c for c in commands if c[:2] == ["bos", "create"]))


class BosConfig(Whole):
    """See ``about``."""

    name = "bosconfig"
    about = "the entry of the instance in BosConfig; bosserver must be down while it is edited"
    where = "/etc/openafs/BosConfig, or /usr/afs/local/BosConfig with upstream's paths"
    mind = f"{MIND}; bosserver may not start at all with a program that does not exist"
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
