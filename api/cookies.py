"""The one cookie of the service: the session of its web pages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

COOKIE = "fstune_session"
_NAME = b"cookie"
#: What a session may be: characters that no parser of cookies needs to decode.
_SESSION = re.compile(r"[A-Za-z0-9_-]{1,200}")

RawHeaders = Sequence[tuple[bytes, bytes]]


def session_of(cookies: Iterable[str]) -> str:
    """The session in the cookie headers of a request, "" for none.

    A browser also sends the cookies of shorter paths, where another service may be, but after ours
    (RFC 6265): the first one counts.
    """
    pairs = (cookie.partition("=") for cookie in ";".join(cookies).split(";"))
    text = next((text.strip() for name, _, text in pairs if name.strip() == COOKIE), "")
    return text if _SESSION.fullmatch(text) else ""


def only_session(headers: RawHeaders) -> list[tuple[bytes, bytes]]:
    """The headers of a request with no other cookie than the session.

    FastAPI parses all cookies of every request, and the parser of Python 3.11.7, for example, takes
    seconds for one of 60 kB, in which nobody else is served.
    """
    session = session_of(text.decode("latin-1") for name, text in headers if name == _NAME)
    rest = [header for header in headers if header[0] != _NAME]
    return [*rest, (_NAME, f"{COOKIE}={session}".encode())] if session else rest
