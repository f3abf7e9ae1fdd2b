"""toyd: a program that reads ``toyd.conf``, writes its settings to ``toyd.status``, and waits.

``python toyd.py DIRECTORY``. It refuses unknown settings and a buffer of less than 1,024 bytes, and
limits the number of workers to 64. SIGHUP makes it read the file again.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

DEFAULTS = {"workers": 4, "buffer": 4096}
MOST_WORKERS = 64
LEAST_BUFFER = 1024
SIGNALS = {signal.SIGTERM, signal.SIGHUP}


def settings(text: str) -> dict[str, int]:
    """Parse a configuration file. Raises ValueError for an invalid setting."""
    values = dict(DEFAULTS)
    for line in text.splitlines():
        name, _, value = line.partition("=")
        if name not in DEFAULTS:
            raise ValueError(f"toyd.conf: no setting {name!r}")
        values[name] = int(value)
    if values["buffer"] < LEAST_BUFFER:
        raise ValueError("toyd.conf: the buffer is too small")
    return values | {"workers": min(values["workers"], MOST_WORKERS)}


def main(directory: Path) -> None:
    """Read the configuration and report the settings, until SIGTERM."""
    while True:
        values = settings((directory / "toyd.conf").read_text())
        lines = [f"pid={os.getpid()}", *(f"{name}={value}" for name, value in values.items())]
        fresh = directory / "toyd.status.new"
        fresh.write_text("\n".join(lines) + "\n")
        fresh.rename(directory / "toyd.status")
        if signal.sigwait(SIGNALS) == signal.SIGTERM:
            break
    (directory / "toyd.status").unlink()


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    main(Path(sys.argv[1]))
