"""The kernel's network limits as a file in /etc/sysctl.d."""

from __future__ import annotations

import re

from tuner.errors import SpecError
from tuner.formats.programs import SYSCTL
from tuner.services.form import Part, Whole

_SETTING = re.compile(r"[a-z][a-z0-9_.]*=[0-9]+")
_NOTHING = "# nothing is set\n"


class SysctlFile(Whole):
    """See ``about``."""

    name = "sysctl.d"
    about = "a file of kernel settings, read when a host starts and by `sysctl --system`"
    where = "/etc/sysctl.d/fstune.conf"
    programs = frozenset({SYSCTL})
    comment = "#"
    mind = (
        "on the fileserver's host, before the fileserver is restarted; clients never ask for "
        "buffers beyond the usual limits; a file with a later name takes precedence"
    )

    def write(self, part: Part) -> str:
        """See Format.write."""
        for word in part.words:
            if not _SETTING.fullmatch(word):
                raise SpecError(f"{word!r} is not a kernel setting; choose another format")
        return "".join(f"{word.replace('=', ' = ')}\n" for word in part.words) or _NOTHING

    def read(self, text: str) -> tuple[str, ...]:
        """See Format.read."""
        lines = [line for line in text.splitlines() if not line.startswith("#")]
        return tuple(line.replace(" = ", "=") for line in lines)
