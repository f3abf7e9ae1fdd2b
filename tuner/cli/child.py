"""The ``fstune`` command for a process that must not outlive the one that started it.

End of file on standard input means that the parent has exited; the process then sends itself
SIGTERM, which pauses a campaign and restores its testbed.
"""

from __future__ import annotations

import os
import signal
import sys
import threading

from tuner import cli


def main() -> None:
    """Run the command line."""
    threading.Thread(target=_watch, args=(sys.stdin.fileno(),), name="leash", daemon=True).start()
    cli.main()


def _watch(leash: int) -> None:
    while os.read(leash, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
