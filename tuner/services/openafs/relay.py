"""UDP relay for tools that only support the cache manager's usual port. Runs on a client host.

``relay.py PORT COMMAND...``: while the command runs, datagrams that it sends to port 7001 of this
host are forwarded to PORT, and the answers are sent back. Exits with the command, which is killed
after some seconds. Standalone: requires Python 3.9 or newer and its standard library, of which only
modules that are fast to import are used, since it runs around every measurement: importing
``socket`` takes longer than everything else.
"""

from __future__ import annotations

import _socket
import os
import select
import sys
import time

_USUAL_PORT = 7001
_LIMIT_S = 5.0
_POLL_S = 0.002
_LARGEST = 65536
_SIGKILL = 9


def main(port: int, command: list[str]) -> int:
    """Relay until the command ends; returns its exit status."""
    front = _socket.socket(_socket.AF_INET, _socket.SOCK_DGRAM)
    front.bind(("127.0.0.1", _USUAL_PORT))
    back = _socket.socket(_socket.AF_INET, _socket.SOCK_DGRAM)
    back.connect(("127.0.0.1", port))
    deadline = time.monotonic() + _LIMIT_S
    child = os.posix_spawnp(command[0], command, os.environ)
    caller = None
    while True:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.WEXITSTATUS(status) if os.WIFEXITED(status) else 1
        if time.monotonic() > deadline:
            os.kill(child, _SIGKILL)
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
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
