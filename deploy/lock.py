"""Make uv.lock independent of the package index by replacing the addresses in it.

The lock file pins versions and content hashes. The addresses that the resolver used are replaced by
reserved ones, so that the same lock file works with any mirror: an installation fetches the files
from its own configured index, and the hashes verify them.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

# RFC 2606 reserves .invalid, so these host names never resolve.
INDEX = "https://index.invalid/simple"
FILES = "https://files.invalid/"

_REGISTRY = re.compile(r'(?<=\bregistry = ")[^"]+(?=")')
_FILE = re.compile(r'(?<=\burl = ")https?://[^"]*?([^"/?#]+)(?:[?#][^"]*)?(?=")')


def without_hosts(lock: str) -> str:
    """Return the text of a uv.lock with every index and file address replaced.

    Only the file name of a file's address is kept, because the directories differ between mirrors.
    The function is idempotent.
    """
    return _FILE.sub(rf"{FILES}\1", _REGISTRY.sub(INDEX, lock))


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(without_hosts(path.read_text(encoding="utf-8")), encoding="utf-8")
