"""HTTP requests to a server, and the translation of its errors.

Decides how long to wait and what to retry. Only the given address is ever contacted: redirects are
reported, not followed, since the token would be sent along.
"""

from __future__ import annotations

import json
import re
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, BinaryIO, Self, TypeVar
from urllib.parse import quote

import httpx2

import tuner
from tuner.errors import NotFoundError, ServerError, SpecError, StoreError, TunerError, of_kind
from tuner.remote.address import Address
from tuner.text import clean

Params = Mapping[str, str | int | bool]
Result = TypeVar("Result")

_CONNECT_S = 10.0
_ANSWER_S = 60.0
_PUT_TOGETHER_S = 600.0
#: For making a plan, the server inspects every host first, and may have to wait for one.
_LOOK_S = 900.0
#: On an idle stream, the service sends a message every 15 s.
_SILENCE_S = 45.0
_TRIES = 4
_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 10.0
_PAGE = 1000
_MOST_PAGES = 100_000
_LONGEST_DETAIL = 1000
#: Answers without a kind of ours. 429 and 503: nothing was begun; others: a proxy got no answer.
_REFUSALS, _NO_ANSWER = (429, 503), (502, 504)
#: Kinds of errors that are about the server itself, not about what it was asked for.
_OF_THE_SERVER = (TunerError.slug, ServerError.slug)
#: An identifier or a name; not dots alone, which lead to another path.
_REFERENCE = re.compile(r"(?=.*[^\W_])[\w .-]{1,80}")


class Unreachable(ServerError):
    """The server does not answer, or cannot at the moment: the request may be retried. ``after_s``:
    the wait it asked for, 0 for none. ``is_refusal``: it certainly did not begin the request;
    ``may_be_done``: the request was sent, and may have been carried out.
    """

    after_s: float = 0.0
    is_refusal: bool = False
    may_be_done: bool = False


#: What a request may be tried again after: the server's database may be restarting, too.
PASSING = (Unreachable, StoreError)
#: A service that is restarted or moved should be back within this time.
PATIENCE_S = 600.0


class Client:
    """HTTP client for one server. ``pause``: waits for a number of seconds; ``clock``: seconds.

    Every method raises the error that the same operation would raise locally, with the message of
    the server, and ServerError for problems of the server itself. Making one raises SpecError if
    the environment names a proxy that cannot be used.
    """

    def __init__(
        self,
        address: Address,
        *,
        pause: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
        transport: httpx2.BaseTransport | None = None,
    ) -> None:
        self.url = address.url
        self._pause = pause
        self._clock = clock
        headers = {"User-Agent": f"fstune/{tuner.__version__}", "Accept": "application/json"}
        if address.token:
            headers["Authorization"] = f"Bearer {address.token}"
        try:
            self._http = httpx2.Client(
                base_url=address.url,
                headers=headers,
                # The certificates that the machine trusts, or those in SSL_CERT_FILE.
                verify=ssl.create_default_context(),
                # A proxy must not see the token on its way to our own loopback.
                trust_env=not address.loopback,
                timeout=httpx2.Timeout(_ANSWER_S, connect=_CONNECT_S),
                follow_redirects=False,
                transport=transport,
            )
        except (ImportError, ValueError, httpx2.InvalidURL):
            # Without its text: the address of a proxy may contain a password.
            raise SpecError(
                "HTTPS_PROXY, HTTP_PROXY or ALL_PROXY names a proxy that cannot be used: write "
                "http://HOST:PORT; SOCKS is not supported, and NO_PROXY excepts hosts"
            ) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._http.close()

    def get(self, path: str, params: Params | None = None) -> Any:
        """Return a document, parsed from JSON."""
        return self._again(lambda: self._send("GET", path, params=params))

    def pages(self, path: str, params: Params | None = None) -> Iterator[Any]:
        """Yield all items of a list, page by page."""
        query = {"limit": _PAGE, **(params or {})}
        for _ in range(_MOST_PAGES):
            page = self.get(path, query)
            match page:
                case {"items": list(items), "next": following}:
                    yield from items
                case _:
                    raise self.misunderstood(path)
            if following is None:
                return
            query["page"] = following
        raise ServerError(f"{self.url}{path}: the list never ends")

    def post(
        self,
        path: str,
        params: Params | None = None,
        body: Mapping[str, object] | None = None,
        *,
        looks: bool = False,
    ) -> Any:
        """Send a request that changes something, once and without retries. ``body``: sent as JSON;
        ``looks``: the server inspects hosts first, which may take minutes.
        """
        answer_s = _LOOK_S if looks else _ANSWER_S
        if body is None:
            return self._send("POST", path, params=params, answer_s=answer_s)
        headers, content = {"Content-Type": "application/json"}, json.dumps(body)
        return self._send(
            "POST", path, params=params, headers=headers, content=content, answer_s=answer_s
        )

    def create(
        self, path: str, body: str, key: str, lost: Callable[[str], None] = lambda _: None
    ) -> Any:
        """Send a request that creates something, retried with the same idempotency key.

        For ten minutes once the server may have begun it, or while its database is unavailable:
        ``lost`` is called with the reason.
        """
        headers = {"Content-Type": "application/json", "Idempotency-Key": key}

        def ask() -> Any:
            return self._send("POST", path, headers=headers, content=body)

        try:
            return self._again(ask, unless_done=True)
        except PASSING as problem:
            if isinstance(problem, Unreachable) and not problem.may_be_done:
                raise
            why = str(problem)
        lost(why)
        return self._wait_for(ask, why, self.doubt("started"))

    def patiently(self, ask: Callable[[], Result], lost: Callable[[str], None]) -> Result:
        """Return what ``ask`` returns. While the server or its database is unavailable, it is
        repeated, for ten minutes: ``lost`` is called with the reason, and with "" afterwards.
        """
        try:
            return ask()
        except PASSING as problem:
            why = str(problem)
        lost(why)
        result = self._wait_for(ask, why)
        lost("")
        return result

    def _wait_for(self, ask: Callable[[], Result], why: str, hint: str = "") -> Result:
        """Repeat a request that failed because of ``why``. Raises ServerError, which ends in
        ``hint``, when the server is away for ten minutes.
        """
        since, pause_s = self._clock(), _FIRST_PAUSE_S
        while self._clock() - since < PATIENCE_S:
            self._pause(pause_s)
            try:
                return ask()
            except PASSING as problem:
                why = str(problem)
                after_s = problem.after_s if isinstance(problem, Unreachable) else 0.0
            pause_s = min(max(after_s, 2.0 * pause_s), _LONGEST_PAUSE_S)
        raise ServerError(f"{why}; given up after {PATIENCE_S / 60.0:.0f} min. {hint}".rstrip())

    def doubt(self, what: str) -> str:
        """Return what to do about a request whose answer was lost. ``what``: "started"."""
        return f"It may have been {what}: look with 'fstune list --server {self.url}'"

    @contextmanager
    def stream(self, path: str, after: int) -> Iterator[Iterator[httpx2.ServerSentEvent]]:
        """Stream the server-sent events after a number.

        Raises Unreachable when the connection breaks.
        """
        headers = {"Accept": "text/event-stream", "Last-Event-ID": str(after)}
        timeout = httpx2.Timeout(_SILENCE_S, connect=_CONNECT_S)
        with (
            self._translating_errors(),
            self._http.stream("GET", path, headers=headers, timeout=timeout) as answer,
        ):
            if answer.status_code != 200:
                answer.read()
                raise self._error_of(answer)
            yield iter(httpx2.EventSource(answer))

    def download(self, path: str, output: BinaryIO) -> int:
        """Write the document at this path to an empty file; return its size in bytes."""

        def ask() -> int:
            output.seek(0)
            output.truncate()
            # The server generates the document before it sends anything.
            timeout = httpx2.Timeout(_PUT_TOGETHER_S, connect=_CONNECT_S)
            with (
                self._translating_errors(),
                self._http.stream("GET", path, timeout=timeout) as answer,
            ):
                if answer.status_code != 200:
                    answer.read()
                    raise self._error_of(answer)
                for piece in answer.iter_bytes():
                    output.write(piece)
            return output.tell()

        return self._again(ask)

    def misunderstood(self, path: str) -> ServerError:
        """Return the error for an answer that is not what it should be."""
        return ServerError(
            f"{self.url}{path}: the answer is not understood; is this an fstune server of the "
            "same version?"
        )

    def _again(self, ask: Callable[[], Result], *, unless_done: bool = False) -> Result:
        """Send a request that is safe to repeat, with retries. ``unless_done``: not after it was
        sent and may have been carried out.
        """
        for attempt in range(1, _TRIES):
            try:
                return ask()
            except PASSING as problem:
                if unless_done and isinstance(problem, Unreachable) and problem.may_be_done:
                    raise
                after_s = problem.after_s if isinstance(problem, Unreachable) else 0.0
                wait_s = after_s or _FIRST_PAUSE_S * 2.0 ** (attempt - 1)
                self._pause(min(wait_s, _LONGEST_PAUSE_S))
        return ask()

    def _send(
        self,
        method: str,
        path: str,
        *,
        params: Params | None = None,
        headers: Mapping[str, str] | None = None,
        content: str | None = None,
        answer_s: float = _ANSWER_S,
    ) -> Any:
        timeout = httpx2.Timeout(_ANSWER_S, connect=_CONNECT_S, read=answer_s)
        with self._translating_errors():
            answer = self._http.request(
                method, path, params=params, headers=headers, content=content, timeout=timeout
            )
        if not answer.is_success:
            raise self._error_of(answer)
        try:
            return answer.json()
        except ValueError:
            raise self.misunderstood(path) from None

    @contextmanager
    def _translating_errors(self) -> Iterator[None]:
        """Translate the exceptions of a failed connection."""
        try:
            yield
        except (httpx2.HTTPError, httpx2.InvalidURL) as problem:
            if isinstance(untrusted := _cause(problem), ssl.SSLCertVerificationError):
                raise ServerError(
                    f"{self.url}: its certificate is not trusted ({untrusted.verify_message}); "
                    "set SSL_CERT_FILE to the certificate of its authority"
                ) from None
            reason = clean(str(problem)).rstrip(".") or type(problem).__name__
            if isinstance(problem, httpx2.ConnectError | httpx2.ConnectTimeout):
                raise Unreachable(
                    f"{self.url}: no connection ({reason}); is it running?"
                ) from problem
            lost = Unreachable(f"{self.url}: the connection broke: {reason}")
            lost.may_be_done = True
            raise lost from problem

    def _error_of(self, answer: httpx2.Response) -> TunerError:
        """Return the error for a problem document."""
        status = answer.status_code
        if answer.is_redirect:
            where = clean(answer.headers.get("location", "nowhere"))
            return ServerError(f"{self.url}: it redirects to {where}; use it if it is right")
        try:
            body = answer.json()
            kind, detail = str(body["type"]), clean(str(body["detail"]))[:_LONGEST_DETAIL]
        except (ValueError, TypeError, KeyError):
            kind, detail = "", f"it answered {status} {clean(answer.reason_phrase)}"
        # It defines further kinds of errors.
        from tuner.hosts import connector  # noqa: F401

        slug = kind.removeprefix("urn:fstune:")
        if slug not in _OF_THE_SERVER and (error := of_kind(slug, detail)) is not None:
            return error
        if status in _REFUSALS + _NO_ANSWER:
            lost = Unreachable(f"{self.url}: {detail}")
            after = answer.headers.get("retry-after", "")
            lost.is_refusal = status in _REFUSALS
            lost.may_be_done = not lost.is_refusal
            lost.after_s = float(after[:6]) if after.isascii() and after.isdigit() else 0.0
            return lost
        if status == 401:
            return ServerError(
                f"{self.url}: it requires a valid token; set FSTUNE_TOKEN or FSTUNE_TOKEN_FILE"
            )
        return ServerError(f"{self.url}: {detail}")


def campaign_path(reference: str, *parts: str) -> str:
    """Return the path of a campaign, or one below it. NotFoundError when no campaign can have this
    name.
    """
    if not _REFERENCE.fullmatch(reference):
        raise NotFoundError(f"there is no campaign {reference!r}; see 'fstune list'")
    return "/".join(("/v1/campaigns", *(quote(part, safe="") for part in (reference, *parts))))


def _cause(problem: BaseException) -> BaseException:
    """Return the root cause of an error."""
    for _ in range(10):
        inner = problem.__cause__ or problem.__context__
        if inner is None or isinstance(problem, ssl.SSLError):
            break
        problem = inner
    return problem
