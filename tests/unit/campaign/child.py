"""Runs the ``fstune`` command in processes that kill themselves: at which write, and at which side
of it. Imports are made once: every command is a fork.

Each line of standard input is a command: ``WRITES before|after ARGUMENTS...``; each line of
standard output is an exit status, negative for a signal.
"""

from __future__ import annotations

import os
import shlex
import signal
import sys
import traceback
from collections.abc import Callable
from typing import Any

from tuner.cli import main
from tuner.store import Store


def arm(writes: int, side: str) -> None:
    """From now on the process is killed, not asked, at its ``writes``-th write."""
    real = Store._change
    count = 0

    def change(store: Store, campaign: str, work: Callable[..., Any]) -> Any:
        nonlocal count
        count += 1
        last = count == writes

        def cut_short(*arguments: Any) -> Any:
            result = work(*arguments)
            if last and side == "before":  # nothing of it is on disk yet
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        result = real(store, campaign, cut_short)
        if last:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    Store._change = change  # type: ignore[method-assign, assignment]


def run(writes: str, side: str, *arguments: str) -> int:
    process = os.fork()
    if process == 0:
        try:
            os.dup2(2, 1)  # standard output belongs to the answers
            arm(int(writes), side)
            sys.argv = ["fstune", *arguments]
            main()
        except SystemExit as end:
            sys.stdout.flush()
            os._exit(end.code if isinstance(end.code, int) else 0)
        except BaseException:
            traceback.print_exc()
        os._exit(99)
    _, status = os.waitpid(process, 0)
    return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    for line in sys.stdin:
        print(run(*shlex.split(line)), flush=True)
