"""Asks the cache manager of this host for its counters. Runs on a client host.

Copies its input to its output, and adds the answers to ``rxdebug`` and ``xstat_cm_test``, each
under a heading. The last line of the input is the ID of the cache manager's process, or empty if it
runs in the kernel. ``xstat_cm_test`` only supports the usual port: if the cache manager has another
one, datagrams that the tool sends to the usual one are forwarded, and the answers are sent back.

Standalone: requires Python 3.9 or newer and its standard library. It runs around every measurement,
so it only uses modules that are fast to import (importing ``socket`` takes longer than everything
else), and it starts while its input is being written.
"""

from __future__ import annotations

import _socket
import os
import select
import time

_USUAL_PORT = 7001
_HOST = "127.0.0.1"
_TIMEOUT_S = 5.0
_SIGKILL = 9
_LARGEST = 65536
_XSTAT = ("xstat_cm_test", _HOST, "-collID", "2", "-onceonly")


def main() -> None:
    """Answer once the input has ended."""
    text = b""
    while data := os.read(0, _LARGEST):
        text += data
    port = udp_port(text.splitlines()[-1].decode()) or _USUAL_PORT
    os.write(1, text + b"=== rxdebug\n")
    run(("rxdebug", _HOST, str(port), "-rxstats", "-noconns"))
    os.write(1, b"=== xstat\n")
    run(_XSTAT, None if port == _USUAL_PORT else Relay(port))


def udp_port(process: str) -> int | None:
    """The port of the process's first UDP socket; None if it has none or there is no process."""
    try:
        links = {_link(f"/proc/{process}/fd/{name}") for name in os.listdir(f"/proc/{process}/fd")}
        with open(f"/proc/{process}/net/udp", encoding="ascii") as table:
            rows = [line.split() for line in table][1:]
    except OSError:
        return None
    ports = [int(row[1].rpartition(":")[2], 16) for row in rows if f"socket:[{row[9]}]" in links]
    return ports[0] if ports else None


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""  # closed meanwhile


class Relay:
    """Forwards datagrams between a tool that uses the usual port and the cache manager's port."""

    def __init__(self, port: int) -> None:
        """``port``: the cache manager's. Raises OSError if the usual one is in use."""
        self._front = _socket.socket(_socket.AF_INET, _socket.SOCK_DGRAM)
        self._front.bind((_HOST, _USUAL_PORT))
        self._back = _socket.socket(_socket.AF_INET, _socket.SOCK_DGRAM)
        self._back.connect((_HOST, port))
        self._caller: tuple[str, int] | None = None

    def descriptors(self) -> list[int]:
        """Which to wait for."""
        return [self._front.fileno(), self._back.fileno()]

    def forward(self, descriptor: int) -> None:
        """Forward the datagram that has arrived."""
        try:
            if descriptor == self._front.fileno():
                data, self._caller = self._front.recvfrom(_LARGEST)
                self._back.send(data)
            elif self._caller is not None:
                self._front.sendto(self._back.recv(_LARGEST), self._caller)
        except ConnectionError:
            pass  # nobody is listening there: the tool will report that


def run(command: tuple[str, ...], relay: Relay | None = None) -> None:
    """Run a command to its end, or kill it after the timeout; ``relay`` works meanwhile."""
    # Only the command has the other end of this pipe: it closes when the command ends.
    end, inherited = os.pipe()
    os.set_inheritable(inherited, True)
    child = os.posix_spawnp(command[0], command, os.environ)
    os.close(inherited)
    deadline = time.monotonic() + _TIMEOUT_S
    while True:
        watched = [end, *(relay.descriptors() if relay else [])]
        ready = select.select(watched, [], [], max(deadline - time.monotonic(), 0))[0]
        if end in ready:
            break
        if not ready or time.monotonic() > deadline:
            os.kill(child, _SIGKILL)
            break
        if relay is not None:
            for descriptor in ready:
                relay.forward(descriptor)
    os.waitpid(child, 0)
    os.close(end)


if __name__ == "__main__":
    main()
