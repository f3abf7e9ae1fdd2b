"""A connection to PostgreSQL that breaks at the worst moment: during a COMMIT."""

from __future__ import annotations

import select
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Literal

#: What happens to a COMMIT when its connection breaks: it is lost, it arrives but its answer is
#: lost, or it arrives long after the client has tried again.
Moment = Literal["lost", "answer-lost", "late"]

# The complete message: it must not match BEGIN ... READ COMMITTED.
_COMMIT = b"COMMIT\0"
_LATE_S = 0.3


class Proxy:
    """Passes bytes between clients and the socket of a server, until told to break a connection."""

    def __init__(self, socket_file: Path, server: Path) -> None:
        self._server = str(server)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(socket_file))
        self._listener.listen()
        self._threads = [threading.Thread(target=self._serve)]
        self._threads[0].start()
        self._break: Moment | None = None
        self.broken = 0

    def break_next(self, moment: Moment) -> None:
        """Break the connection at the next COMMIT, once."""
        self._break = moment

    def close(self) -> None:
        """Wait until all clients have disconnected."""
        self._listener.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(timeout=60)

    def _serve(self) -> None:
        with closing(self._listener), suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                thread = threading.Thread(target=self._pass, args=(client,))
                self._threads.append(thread)
                thread.start()

    def _pass(self, client: socket.socket) -> None:
        with closing(client), socket.socket(socket.AF_UNIX) as server, suppress(OSError):
            server.connect(self._server)
            while True:
                for end in select.select([client, server], [], [])[0]:
                    data = end.recv(65536)
                    if not data:
                        return
                    if end is client and self._break is not None and _COMMIT in data:
                        return self._cut(client, server, data)
                    (server if end is client else client).sendall(data)

    def _cut(self, client: socket.socket, server: socket.socket, data: bytes) -> None:
        moment, self._break = self._break, None
        self.broken += 1
        if moment == "answer-lost":
            server.sendall(data)
            server.recv(65536)
        elif moment == "late":
            client.close()
            time.sleep(_LATE_S)
            server.sendall(data)
            server.recv(65536)


@contextmanager
def between(socket_file: Path, server: Path) -> Iterator[Proxy]:
    """Run a proxy with its own socket in front of a server."""
    proxy = Proxy(socket_file, server)
    try:
        yield proxy
    finally:
        proxy.close()
        socket_file.unlink()
