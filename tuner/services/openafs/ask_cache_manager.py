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

_USUAL_PORT = 7001
_HOST = "127.0.0.1"
_POLL_S = 0.002
_LARGEST = 65536
_XSTAT = ("timeout", "5", "xstat_cm_test", _HOST, "-collID", "2", "-onceonly")


def main() -> None:
    """Answer once the input has ended."""
    text = b""
    while data := os.read(0, _LARGEST):
        text += data
    port = udp_port(text.splitlines()[-1].decode()) or _USUAL_PORT
    os.write(1, text + b"=== rxdebug\n")
    rxdebug = ("timeout", "5", "rxdebug", _HOST, str(port), "-rxstats", "-noconns")
    os.waitpid(start(rxdebug), 0)
    os.write(1, b"=== xstat\n")
    if port == _USUAL_PORT:
        os.waitpid(start(_XSTAT), 0)
    else:
        relay(port)


def start(command: tuple[str, ...]) -> int:
    """Start a command; returns its process ID."""
    return os.posix_spawnp(command[0], command, os.environ)


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


def relay(port: int) -> None:
    """Run ``xstat_cm_test``, with the usual port forwarded to ``port``."""
    front = _socket.socket(_socket.AF_INET, _socket.SOCK_DGRAM)
    front.bind((_HOST, _USUAL_PORT))
    back = _socket.socket(_socket.AF_INET, _socket.SOCK_DGRAM)
    back.connect((_HOST, port))
    caller = None
    child = start(_XSTAT)
    while not os.waitpid(child, os.WNOHANG)[0]:
        for ready in select.select([front, back], [], [], _POLL_S)[0]:
            try:
                if ready is front:
                    data, caller = front.recvfrom(_LARGEST)
                    back.send(data)
                elif caller is not None:
                    front.sendto(back.recv(_LARGEST), caller)
            except ConnectionError:
                continue  # nobody is listening there: the command will report that


if __name__ == "__main__":
    main()
