"""The options of afsd in a file of shell assignments, which an init script reads."""

from __future__ import annotations

import shlex

from tuner.formats import client_cache
from tuner.formats.programs import KERNEL_CLIENT
from tuner.services.form import Part, Whole, plain


def assignment(variable: str, part: Part) -> str:
    """Return the line. The init script splits the value at blanks, so it contains no quotes."""
    return f'{variable}="{plain(part.words)}"'


def assigned(line: str) -> tuple[str, ...]:
    """Return the words that such a line assigns."""
    return tuple(shlex.split(line.partition("=")[2])[0].split())


class _Assigned(Whole):
    variable = ""
    programs = frozenset({KERNEL_CLIENT})
    comment = "#"
    mind = f"{Whole.mind}; {client_cache.MIND}"

    def write(self, part: Part) -> str:
        """See Format.write."""
        return f"{assignment(self.variable, part)}\n"

    def read(self, text: str) -> tuple[str, ...]:
        """See Format.read."""
        start = f"{self.variable}="
        return assigned(next(line for line in text.splitlines() if line.startswith(start)))


class AfsConf(_Assigned):
    """See ``about``."""

    name = "afs.conf"
    variable = "OPTIONS"
    about = "the line of Debian's afs.conf"
    where = "/etc/openafs/afs.conf"


class Sysconfig(_Assigned):
    """See ``about``."""

    name = "sysconfig"
    variable = "AFSD_ARGS"
    about = "the line of Red Hat's sysconfig file"
    where = "/etc/sysconfig/openafs"
