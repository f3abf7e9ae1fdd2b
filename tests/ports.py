"""Ports for the services of tests, which nobody else is given before they are listened on."""

from __future__ import annotations

import os
import socket
from itertools import cycle

#: Below all that the kernel hands out by itself, as it does for every connection that is made.
_FIRST, _EACH = 20000, 3000
#: Tests run in several processes at once (gw0, gw1, ...), and several runs of them may.
_WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % 4
_START = os.getpid() % _EACH
_ports = cycle(_FIRST + _EACH * _WORKER + (_START + n) % _EACH for n in range(_EACH))


def free_port() -> int:
    """A port of the loopback on which nobody listens; no other test is given it for long."""
    for _ in range(_EACH):
        port = next(_ports)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
    raise AssertionError("all ports are in use")
