"""The cache size in cacheinfo, the only option that this file can hold."""

from __future__ import annotations

from collections.abc import Sequence

from tuner.errors import SpecError
from tuner.formats import client_cache
from tuner.formats.programs import FUSE_CLIENT, KERNEL_CLIENT
from tuner.services.form import Part, pairs, plain

_SIZE = "-blocks"
#: Defaults of Debian's packages.
_MOUNT, _CACHE = "/afs", "/var/cache/openafs"


class CacheInfo:
    """See ``about``."""

    name = "cacheinfo"
    about = "the cache's size in cacheinfo, with mount point and directory as Debian has them"
    where = "/etc/openafs/cacheinfo"
    programs = frozenset({KERNEL_CLIENT, FUSE_CLIENT})
    comment = ""
    together = False
    mind = (
        "-blocks on the command line takes precedence; compare mount point and directory with "
        f"yours; {client_cache.MIND}"
    )

    def holds(self, words: Sequence[str]) -> tuple[str, ...]:
        """See Format.holds."""
        return tuple(w for name, values in pairs(words) if name == _SIZE for w in (name, *values))

    def write(self, part: Part) -> str:
        """See Format.write."""
        options = self.holds(part.words)
        size = plain(options[1:])
        if options and not size.isdecimal():
            raise SpecError(f"{size!r} is not a cache size; choose another format")
        return f"{_MOUNT}:{_CACHE}:{size}\n" if options else ""

    def read(self, text: str) -> tuple[str, ...]:
        """See Format.read."""
        return (_SIZE, text.strip().split(":")[2]) if text.strip() else ()
