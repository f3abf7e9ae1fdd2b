"""A long command that outlives the connection over which it was started.

Owns the waiting: it polls the host until the run has an answer, over a new connection when one was
lost. The run identifier makes every request idempotent: the host starts a run once, and later
requests attach to it. The run's directory on the host is removed when its answer has arrived; its
identifier can then be used again.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tuner.errors import TestbedError, TransportError
from tuner.hosts.connector import program
from tuner.hosts.exchange import Answer, Request
from tuner.identifiers import word

#: The account's directory of runs on the host; survives a reboot.
DIRECTORY = "/var/tmp/fstune-{uid}"

_PAUSE_S = 0.5
#: Time beyond the command's own limit for its keeper to kill it and report that.
_GRACE_S = 30.0

#: Sends a request, given the request, its name in errors and the host's time limit in seconds.
Exchange = Callable[[Request, str, float], Answer]


@dataclass(frozen=True, slots=True)
class Waiting:
    """Time limits of a run. ``timeout_s``: the command is killed after this time. ``reconnect_s``:
    a host that is unreachable for this long is given up. ``look_s``: how long one request waits for
    the end of the run before it is repeated; also the interval of heartbeats.
    """

    timeout_s: float
    reconnect_s: float
    look_s: float


#: Outcomes of runs that have no answer and will have none.
_LOST = {
    "rebooted": "the host was restarted while it ran",
    "unknown": "the host no longer knows it: somebody has removed it",
    "lost": "it was killed together with its keeper; no result is left",
    "other": "its run identifier belongs to another command",
}


def run(
    exchange: Exchange,
    host: str,
    argv: Sequence[str],
    run_id: str,
    waiting: Waiting,
    boot_id: str = "",
) -> Answer:
    """Start the run unless it already exists on the host, and wait for its end. ``boot_id``: the
    boot in which the run must take place; empty means the current one.

    Raises TransportError when the host was rebooted, stays unreachable or has lost the run, which
    is not started again; an unreachable host continues the run. On any other exception (Ctrl-C
    above all) the command is killed and its directory removed.
    """
    word(run_id, "run identifier")  # it becomes part of a path on the host
    one = _Run(exchange, host, argv, run_id, waiting, boot_id)
    try:
        answer = one.wait()
    except TestbedError:
        raise
    except BaseException:
        one.forget()
        raise
    if answer.ended in ("unknown", "other"):
        raise one.failure(_LOST[answer.ended])  # nothing there is ours to remove
    one.forget()
    if answer.ended in _LOST:
        raise one.failure(_LOST[answer.ended])
    return answer


class _Run:
    """One run, polled until it has ended."""

    def __init__(
        self,
        exchange: Exchange,
        host: str,
        argv: Sequence[str],
        run_id: str,
        waiting: Waiting,
        boot_id: str,
    ) -> None:
        self._exchange = exchange
        self._what = f"{program(argv)} (run {run_id})"
        self._host = host
        self._waiting = waiting
        self._fields: dict[str, object] = {
            "directory": DIRECTORY,
            "run_id": run_id,
            "argv": list(argv),
            "timeout_s": waiting.timeout_s,
            "wait_s": waiting.look_s,
            "boot_id": boot_id,
        }

    def failure(self, why: str) -> TransportError:
        """Build an error that names host, command and run."""
        return TransportError(f"{self._host}: {self._what}: {why}")

    def wait(self) -> Answer:
        """Poll until the run has ended or is lost."""
        # The boot identifier is fixed before the run, so that a reboot is never mistaken for a
        # run that has not started yet.
        if not self._fields["boot_id"]:
            self._fields["boot_id"] = self._ask("greet").boot_id
        self._fields["known"] = False
        deadline = time.monotonic() + self._waiting.timeout_s + _GRACE_S
        last_answer_s = time.monotonic()
        while True:
            try:
                answer = self._ask("attend")
            except TransportError as problem:
                if time.monotonic() - last_answer_s > self._waiting.reconnect_s:
                    raise self.failure(
                        f"unreachable for {self._waiting.reconnect_s:g} s; it may still be "
                        f"running there: {problem}"
                    ) from problem
                time.sleep(_PAUSE_S)
                continue
            last_answer_s = time.monotonic()
            if answer.ended != "running":
                return answer
            if last_answer_s > deadline:
                raise self.failure("it has not ended, long after its time limit")
            self._fields["known"] = True

    def forget(self) -> None:
        """Kill the run if it still goes on and remove its directory on the host; ignore errors,
        such as an unreachable host.
        """
        with contextlib.suppress(TestbedError):
            self._ask("forget")

    def _ask(self, do: str) -> Answer:
        request = Request(do, self._waiting.look_s, self._fields)
        return self._exchange(request, self._what, self._waiting.look_s + _GRACE_S)
