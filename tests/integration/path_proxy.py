"""A proxy that publishes a service below a path, as simply as possible."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from http.client import HTTPConnection, HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

#: About the connection, not about the answer.
_OWN = ("connection", "transfer-encoding")


@contextmanager
def publishing(port: int, path: str) -> Iterator[str]:
    """Publish the service at a port of the loopback below a path; yields the address of that."""

    class Handler(BaseHTTPRequestHandler):
        def pass_on(self) -> None:
            if self.path == path:  # as nginx does
                self.send_response_only(301)
                self.send_header("Location", f"{path}/")
                self.end_headers()
                return
            if not self.path.startswith(f"{path}/"):
                self.send_error(404)
                return
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            headers = {k: v for k, v in self.headers.items() if k.lower() not in _OWN}
            with closing(HTTPConnection("127.0.0.1", port, timeout=100)) as connection:
                try:
                    connection.request(self.command, self.path.removeprefix(path), body, headers)
                    answer = connection.getresponse()
                except (OSError, HTTPException):
                    self.send_error(502)
                    return
                self.send_response_only(answer.status)
                for name, value in answer.getheaders():
                    if name.lower() not in _OWN:
                        self.send_header(name, value)
                self.end_headers()
                # What either side leaves in the middle, the other side notices by itself.
                with suppress(OSError, HTTPException):
                    while piece := answer.read1(1 << 16):
                        self.wfile.write(piece)

        do_GET = do_POST = pass_on

        def log_message(self, *what: object) -> None:
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}{path}"
        finally:
            server.shutdown()
