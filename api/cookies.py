"""The one cookie of the service: the session of its web pages."""

from __future__ import annotations

import re
from collections.abc import Sequence

COOKIE = "fstune_session"
_NAME = b"cookie"
#: What a session may be: characters that no parser of cookies needs to decode.
_SESSION = re.compile(r"[A-Za-z0-9_-]{1,200}")

RawHeaders = Sequence[tuple[bytes, bytes]]


def only_session(headers: RawHeaders) -> list[tuple[bytes, bytes]]:
    """The headers of a request with no other cookie than the session.

    FastAPI parses all cookies of every request, and the parser of Python 3.11.7, for example, takes
    seconds for one of 60 kB, in which nobody else is served. A browser also sends the cookies of
    shorter paths, where another service may be, but after ours (RFC 6265): the first one counts.
    """
    cookies = b";".join(text for name, text in headers if name == _NAME).decode("latin-1")
    pairs = (cookie.partition("=") for cookie in cookies.split(";"))
    session = next((text.strip() for name, _, text in pairs if name.strip() == COOKIE), "")
    rest = [header for header in headers if header[0] != _NAME]
    if not _SESSION.fullmatch(session):
        return rest
    return [*rest, (_NAME, f"{COOKIE}={session}".encode())]
