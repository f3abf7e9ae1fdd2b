"""Asks the cache manager of this host for its counters. Runs on a client host.

Its arguments are a command. Prints what that prints, and then the answers to ``rxdebug`` and
``xstat_cm_test``, which run at once, each under a heading. The last line of the command's output is
the ID of the cache manager's process, or empty if it runs in the kernel. ``xstat_cm_test`` only
supports the usual port: if the cache manager has another one, datagrams that the tool sends to the
usual one are forwarded, and the answers are sent back.

Standalone: requires Python 3.9 or newer and its standard library. It runs around every measurement,
so it only uses modules that are fast to import (importing ``socket`` takes longer than everything
else).
"""

from __future__ import annotations

import _socket
import os
import select
import sys
import time

_USUAL_PORT = 7001
_HOST = "127.0.0.1"
_TIMEOUT_S = 5.0
_SIGKILL = 9
_LARGEST = 65536
_XSTAT = ("xstat_cm_test", _HOST, "-collID", "2", "-onceonly")
_STDOUT, _STDERR = 1, 2


def main() -> None:
    """Print everything."""
    text = outputs([tuple(sys.argv[1:])])[0]
    process = text.splitlines()[-1].decode() if text else ""
    port = udp_port(process) or _USUAL_PORT
    rxdebug = ("rxdebug", _HOST, str(port), "-rxstats", "-noconns")
    try:
        relay = None if port == _USUAL_PORT else Relay(port)
        answers = outputs([rxdebug, _XSTAT], relay)
    except OSError as problem:
        # It is another cache manager's: this one can still be asked by rxdebug.
        why = f"UDP port {_USUAL_PORT} of {_HOST}, which xstat_cm_test needs: {problem}"
        answers = [*outputs([rxdebug]), why.encode()]
    os.write(_STDOUT, text + b"=== rxdebug\n" + answers[0] + b"=== xstat\n" + answers[1])


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
        try:
            self._front.bind((_HOST, _USUAL_PORT))
        except OSError:
            self._front.close()
            raise
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


def outputs(commands: list[tuple[str, ...]], relay: Relay | None = None) -> list[bytes]:
    """Run these commands at once and return what each prints. Those that take longer than the
    timeout are killed; one that is not installed prints nothing. ``relay`` works meanwhile.
    """
    children: list[int] = []
    answers: dict[int, bytes] = {}
    for command in commands:
        # Only the command has the other end of this pipe: it closes when the command ends.
        end, inherited = os.pipe()
        answers[end] = b""
        moves = [(os.POSIX_SPAWN_DUP2, inherited, _STDOUT)]
        try:
            children.append(os.posix_spawnp(command[0], command, os.environ, file_actions=moves))
        except OSError as problem:
            os.write(_STDERR, f"{command[0]}: {problem}\n".encode())
        os.close(inherited)
    deadline = time.monotonic() + _TIMEOUT_S
    open_ends = set(answers)
    while open_ends:
        watched = [*open_ends, *(relay.descriptors() if relay else [])]
        ready = select.select(watched, [], [], max(deadline - time.monotonic(), 0))[0]
        if not ready or time.monotonic() > deadline:
            for child in children:
                os.kill(child, _SIGKILL)
            break
        for descriptor in ready:
            if descriptor in open_ends:
                data = os.read(descriptor, _LARGEST)
                answers[descriptor] += data
                if not data:
                    open_ends.remove(descriptor)
            elif relay is not None:
                relay.forward(descriptor)
    for child in children:
        os.waitpid(child, 0)
    for end in answers:
        os.close(end)
    return [*answers.values()]


if __name__ == "__main__":
    main()
