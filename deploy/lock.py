"""Makes uv.lock independent of where packages come from; owns nothing but the addresses in it.

The lock pins versions and content hashes. The addresses that the resolver happened to use are
replaced by reserved ones, so that the same lock serves behind any mirror: an installation asks
its own configured index for the files, and the hashes decide whether they are the right ones.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

# RFC 2606 reserves .invalid: no resolver will ever answer for these hosts.
INDEX = "https://index.invalid/simple"
FILES = "https://files.invalid/"

_REGISTRY = re.compile(r'(?<=\bregistry = ")[^"]+(?=")')
_FILE = re.compile(r'(?<=\burl = ")https?://[^"]*?([^"/?#]+)(?:[?#][^"]*)?(?=")')


def without_hosts(lock: str) -> str:
    """Return the text of a uv.lock with every index and file address replaced.

    Of a file's address only its name is kept: the directories above it differ between mirrors.
    Applying it twice changes nothing.
    """
    return _FILE.sub(rf"{FILES}\1", _REGISTRY.sub(INDEX, lock))


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(without_hosts(path.read_text(encoding="utf-8")), encoding="utf-8")
