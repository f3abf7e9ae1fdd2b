"""Middleware for every request: rate limits, host name check, body size, and response headers.

These are plain ASGI middleware, so that streams pass through unbuffered.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections import OrderedDict
from collections.abc import Callable

from anyio import BrokenResourceError, CancelScope
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.cookies import cookie_name, only_session
from api.problems import problem
from tuner.settings import is_loopback

#: Only our own scripts and styles; no frames, nothing inline, nothing from other origins.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
LARGEST_BODY_BYTES = 256 << 10
_LARGEST_TAGGED_BYTES = 8 << 20
_WITH_BODY = ("POST", "PUT", "PATCH", "DELETE")
_ADDRESSES_KEPT = 10_000


class HeadersLayer:
    """Add security headers to every response, and an ETag to JSON and HTML of at most 8 MiB that
    answers a GET with 200. ``HeadLayer`` is outside.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        answer = _Answer(scope, send)
        try:
            await self.app(scope, receive, answer)
        except* BrokenResourceError:
            # Raised when the reader of an event stream leaves while an event is being sent.
            if not answer.has_begun:
                raise


class _Answer:
    """A response being sent. A document is buffered until its ETag can be computed."""

    def __init__(self, scope: Scope, send: Send) -> None:
        self.send = send
        self.if_none_match = ",".join(Headers(scope=scope).getlist("if-none-match"))
        self.tags = scope["method"] == "GET"
        self.has_begun = False
        self.start: Message | None = None
        self.body = b""

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.has_begun = True
            headers = MutableHeaders(raw=message["headers"])
            message["headers"] = headers.raw
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
            headers.setdefault("cache-control", "private, no-cache")
            kind = headers.get("content-type", "")
            length = int(headers.get("content-length", _LARGEST_TAGGED_BYTES + 1))
            whole = self.tags and message["status"] == 200 and length <= _LARGEST_TAGGED_BYTES
            if whole and kind.startswith(("application/json", "text/html")):
                self.start = message
                return
        elif self.start is not None:
            self.body += message.get("body", b"")
            if message.get("more_body", False):
                return
            await self._finish(self.start)
            return
        await self.send(message)

    async def _finish(self, start: Message) -> None:
        headers = MutableHeaders(raw=start["headers"])
        tag = etag(self.body)
        headers["etag"] = tag
        old_tags = [old.strip().removeprefix("W/") for old in self.if_none_match.split(",")]
        if tag in old_tags or old_tags == ["*"]:
            for name in ("content-length", "content-type"):
                del headers[name]
            start["status"], self.body = 304, b""
        await self.send(start)
        await self.send({"type": "http.response.body", "body": self.body})


def etag(body: bytes) -> str:
    """The ETag of a document."""
    return f'"{hashlib.sha256(body).hexdigest()[:32]}"'


class HeadLayer:
    """Answer HEAD as GET, without the body."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self.app(scope, receive, send)
            return
        with CancelScope() as work:
            await self.app({**scope, "method": "GET"}, receive, _WithoutBody(send, work))


class _WithoutBody:
    """A response being sent without its body. A stream, whose body may never end, is cancelled."""

    def __init__(self, send: Send, work: CancelScope) -> None:
        self.send = send
        self.work = work
        self.is_over = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            await self.send(message)
            if "content-length" not in Headers(raw=message["headers"]):
                await self._end()
                self.work.cancel()
        elif not self.is_over and not message.get("more_body", False):
            await self._end()

    async def _end(self) -> None:
        self.is_over = True
        await self.send({"type": "http.response.body", "body": b""})


class Buckets:
    """Token bucket per address: ``per_s`` requests per second on average, ``burst`` at once."""

    def __init__(
        self, per_s: float, burst: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._per_s = per_s
        self._burst = float(burst)
        self._clock = clock
        self._tokens: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, address: str) -> float:
        """Count a request. Returns the seconds to wait before retrying, 0 if it is allowed."""
        now = self._clock()
        tokens, then = self._tokens.pop(address, (self._burst, now))
        tokens = min(self._burst, tokens + (now - then) * self._per_s)
        wait_s = 0.0 if tokens >= 1.0 else (1.0 - tokens) / self._per_s
        self._tokens[address] = (tokens if wait_s else tokens - 1.0, now)
        while len(self._tokens) > _ADDRESSES_KEPT:
            self._tokens.popitem(last=False)
        return wait_s


class LimitsLayer:
    """Reject requests that are too frequent, too large, or for an unknown host name, and remove
    all cookies but the session.

    A web page in a visitor's browser can make any host name resolve to the loopback address (DNS
    rebinding). Without tokens, only the requested host name tells it apart from the visitor.
    """

    def __init__(self, app: ASGIApp, buckets: Buckets, hosts: frozenset[str] | None) -> None:
        self.app = app
        self.buckets = buckets
        self.hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        name = host_name(Headers(scope=scope).get("host", ""))
        if self.hosts is not None and not (is_loopback(name) or name in self.hosts):
            refusal = problem(400, "unknown-host", f"this service is not called {name!r}")
            await refusal(scope, receive, send)
            return
        client = scope.get("client")
        wait_s = self.buckets.take(client[0] if client else "")
        if wait_s:
            after = {"Retry-After": str(max(1, math.ceil(wait_s)))}
            refusal = problem(429, "too-many", "too many requests; try again later", after)
            await refusal(scope, receive, send)
            return
        cookie = cookie_name(scope.get("scheme", "http"), scope.get("root_path", ""))
        scope = {**scope, "headers": only_session(scope["headers"], cookie)}
        read = scope["method"] in _WITH_BODY
        body = await _whole_body(receive) if read else b""
        if body is None:
            refusal = problem(413, "too-large", f"the body exceeds {LARGEST_BODY_BYTES} bytes")
            await refusal(scope, receive, send)
            return
        await self.app(scope, _Replay(body, receive) if read else receive, send)


async def _whole_body(receive: Receive) -> bytes | None:
    """Read the body of a request; None if it is too large or the client disconnected."""
    body: bytes = b""
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None
        body += message.get("body", b"")
        if len(body) > LARGEST_BODY_BYTES:
            return None
        if not message.get("more_body", False):
            return body


class _Replay:
    """Replay a request body that was already read, then pass later messages through."""

    def __init__(self, body: bytes, receive: Receive) -> None:
        self.body: bytes | None = body
        self.receive = receive

    async def __call__(self) -> Message:
        if self.body is None:
            return await self.receive()
        body, self.body = self.body, None
        return {"type": "http.request", "body": body, "more_body": False}


def host_name(host: str) -> str:
    """The name in a Host header, without the port."""
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
    return name.strip("[]").lower()
