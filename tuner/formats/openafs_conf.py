"""OpenAFS's own configuration files since 1.8: ``name = value`` in the section of a program.

The command line takes precedence. OpenAFS treats a flag as set whatever its value, even "no", so a
flag is either present with the value "yes" or absent.
"""

from __future__ import annotations

from configparser import ConfigParser
from io import StringIO

from tuner.errors import SpecError
from tuner.formats import client_cache
from tuner.formats.programs import FILESERVER, FUSE_CLIENT, KERNEL_CLIENT
from tuner.services.form import Part, Whole, pairs, plain

_YES = "yes"


class _Exact(ConfigParser):
    """A parser with case-sensitive names: ``L`` and ``l`` are different options."""

    def __init__(self) -> None:
        super().__init__(interpolation=None, delimiters=("=",), comment_prefixes=("#",))

    def optionxform(self, optionstr: str) -> str:
        """See ConfigParser."""
        return optionstr


class _Sectioned(Whole):
    section = ""
    comment = "#"
    mind = "an option on the command line takes precedence; restart the program"

    def write(self, part: Part) -> str:
        """See Format.write."""
        values = {}
        for name, words in pairs(part.words):
            if len(words) > 1 or words in ((_YES,), ("",)):
                message = f"{name}: its values cannot be given in the section {self.section}"
                raise SpecError(f"{message}; choose another format")
            values[plain([name.removeprefix("-")])] = plain(words) or _YES
        file, text = _Exact(), StringIO()
        file[self.section] = values
        file.write(text)
        return text.getvalue().rstrip("\n") + "\n"

    def read(self, text: str) -> tuple[str, ...]:
        """See Format.read."""
        file = _Exact()
        file.read_string(text)
        words: list[str] = []
        for name, value in file[self.section].items():
            words += [f"-{name}"] if value == _YES else [f"-{name}", value]
        return tuple(words)


class ServerConf(_Sectioned):
    """See ``about``."""

    name = "openafs-server.conf"
    section = "fileserver"
    about = "OpenAFS's own file for servers, 1.8 and later"
    where = "/etc/openafs/server/openafs-server.conf"
    programs = frozenset({FILESERVER})


class ClientConf(_Sectioned):
    """See ``about``."""

    name = "openafs-client.conf"
    section = "afsd"
    about = "OpenAFS's own file for clients, 1.8 and later"
    where = "/etc/openafs/openafs-client.conf"
    programs = frozenset({KERNEL_CLIENT, FUSE_CLIENT})
    mind = f"{_Sectioned.mind}; {client_cache.MIND}"
