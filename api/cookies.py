"""The one cookie of the service: the session of its web pages."""

from __future__ import annotations

import re
from collections.abc import Sequence

#: Its name within the service.
COOKIE = "fstune_session"
#: A browser takes a cookie whose name begins so only over HTTPS, from this very host and for all of
#: its paths: no other host of the domain, and nobody on a connection without TLS, can set one.
_OF_HOST = "__Host-"
_NAME = b"cookie"
#: What a session may be: characters that no parser of cookies needs to decode.
_SESSION = re.compile(r"[A-Za-z0-9_-]{1,200}")

RawHeaders = Sequence[tuple[bytes, bytes]]


def cookie_name(scheme: str, root: str) -> str:
    """The name of the cookie for browsers. Below a path (``root``), it is sent to that path only,
    which the prefix does not allow.
    """
    return _OF_HOST + COOKIE if scheme == "https" and not root else COOKIE


def only_session(headers: RawHeaders, name: str = COOKIE) -> list[tuple[bytes, bytes]]:
    """The headers of a request with no other cookie than the session, which has this ``name``
    outside the service.

    FastAPI parses all cookies of every request, and the parser of Python 3.11.7, for example, takes
    seconds for one of 60 kB, in which nobody else is served. A browser also sends the cookies of
    shorter paths, where another service may be, but after ours (RFC 6265): the first one counts.
    """
    cookies = b";".join(text for key, text in headers if key == _NAME).decode("latin-1")
    pairs = (cookie.partition("=") for cookie in cookies.split(";"))
    session = next((text.strip() for key, _, text in pairs if key.strip() == name), "")
    rest = [header for header in headers if header[0] != _NAME]
    if not _SESSION.fullmatch(session):
        return rest
    return [*rest, (_NAME, f"{COOKIE}={session}".encode())]
