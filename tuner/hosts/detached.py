"""A long command that outlives the connection by which it was started.

Owns the waiting: it asks the host again and again until the run has its answer, over a new
connection when one was lost. The run identifier makes every question harmless to repeat: the host
starts a run once, and whoever asks later finds it. What the host remembers of a run is removed when
its answer has arrived; its identifier is free again then.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tuner.errors import SpecError, TestbedError, TransportError
from tuner.hosts.connector import program
from tuner.hosts.exchange import Answer, Request

#: Directory of the account on the host that holds its runs; outlives a restart of the machine.
DIRECTORY = "/var/tmp/fstune-{uid}"

_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
_PAUSE_S = 0.5
#: Beyond the command's own limit: for its keeper to end it and say so.
_GRACE_S = 30.0

#: Sends a request; the text names it in errors, the number is how long the host takes at most.
Exchange = Callable[[Request, str, float], Answer]


@dataclass(frozen=True, slots=True)
class Waiting:
    """``timeout_s``: the command is killed then. ``reconnect_s``: a host that cannot be reached for
    so long is given up. ``look_s``: one question waits so long for the end, and is then repeated.
    """

    timeout_s: float
    reconnect_s: float
    look_s: float


#: What the host says of a run that has no answer and will have none.
_LOST = {
    "rebooted": "the host was restarted while it ran",
    "unknown": "the host knows it no longer: somebody removed it",
    "lost": "it was killed together with its keeper, no result is left",
    "other": "its run identifier belongs to another command",
}


def run(
    exchange: Exchange,
    host: str,
    argv: Sequence[str],
    run_id: str,
    input: bytes,
    waiting: Waiting,
    boot_id: str = "",
) -> Answer:
    """Start the run unless the host has it already, and wait for its end. ``boot_id``: of the start
    of the machine that is meant; the present one when it is empty.

    Raises TransportError when the host was restarted, stays out of reach or has lost the run, which
    is not started again; a host that only stays out of reach goes on with it. On anything else that
    arrives here (Ctrl-C above all) the command is killed and forgotten.
    """
    if not _RUN_ID.fullmatch(run_id):
        raise SpecError(f"run identifier {run_id!r}: use 1 to 100 letters, digits, - and _")
    one = _Run(exchange, host, argv, run_id, input, waiting, boot_id)
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
    """One run, asked about until it has ended."""

    def __init__(
        self,
        exchange: Exchange,
        host: str,
        argv: Sequence[str],
        run_id: str,
        input: bytes,
        waiting: Waiting,
        boot_id: str,
    ) -> None:
        self._exchange = exchange
        self._what = f"{program(argv)} (run {run_id})"
        self._host = host
        self._waiting = waiting
        self._input = input
        self._fields: dict[str, object] = {
            "directory": DIRECTORY,
            "run_id": run_id,
            "argv": list(argv),
            "timeout_s": waiting.timeout_s,
            "wait_s": waiting.look_s,
            "boot_id": boot_id,
        }

    def failure(self, why: str) -> TransportError:
        """An error that names host, command and run."""
        return TransportError(f"{self._host}: {self._what}: {why}")

    def wait(self) -> Answer:
        """Ask until the run has ended or is lost."""
        # Which start of the machine is meant is settled before the run: a restart is never
        # mistaken for a run that has not begun.
        if not self._fields["boot_id"]:
            self._fields["boot_id"] = self._ask("greet", b"").boot_id
        self._fields["known"] = False
        deadline = time.monotonic() + self._waiting.timeout_s + _GRACE_S
        last_answer_s = time.monotonic()
        while True:
            try:
                answer = self._ask("attend", self._input)
            except TransportError as problem:
                if time.monotonic() - last_answer_s > self._waiting.reconnect_s:
                    raise self.failure(
                        f"out of reach for {self._waiting.reconnect_s:g} s; it may go on there: "
                        f"{problem}"
                    ) from problem
                time.sleep(_PAUSE_S)
                continue
            last_answer_s = time.monotonic()
            if answer.ended != "running":
                return answer
            if last_answer_s > deadline:
                raise self.failure("it does not end, long after its time")
            self._fields["known"] = True
            self._input = b""

    def forget(self) -> None:
        """End it if it still runs, and remove what the host remembers; as far as it can be
        reached.
        """
        with contextlib.suppress(TestbedError):
            self._ask("forget", b"")

    def _ask(self, do: str, content: bytes) -> Answer:
        request = Request(do, self._waiting.look_s, self._fields, content)
        return self._exchange(request, self._what, self._waiting.look_s + _GRACE_S)
