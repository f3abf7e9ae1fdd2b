"""Ports for the services of tests, which are not assigned to others before the service listens."""

from __future__ import annotations

import os
import socket
from itertools import cycle

#: Below the range from which the kernel assigns ports, as it does for every connection.
_FIRST, _EACH = 20000, 2000
#: Tests run in several processes at once (gw0, gw1, ...), and several test runs may, too.
_WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % 6
_START = os.getpid() % _EACH
_ports = cycle(_FIRST + _EACH * _WORKER + (_START + n) % _EACH for n in range(_EACH))


def free_port() -> int:
    """Return an unused port of the loopback; no other test gets the same one for a long time."""
    for _ in range(_EACH):
        port = next(_ports)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
    raise AssertionError("all ports are in use")
