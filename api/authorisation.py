"""Who makes a request, and what it may do: tokens, sessions of the web pages, other sites."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Annotated
from urllib.parse import urlsplit

from fastapi import Depends, Request
from fastapi.security import APIKeyCookie, HTTPBearer

from api.cookies import COOKIE
from api.problems import RequestError
from api.service import Service, Serving, service
from tuner.tokens import Scope, Token

_SAFE = ("GET", "HEAD", "OPTIONS")

#: For the OpenAPI document only: ``visitor`` reads the request itself.
_bearer = HTTPBearer(auto_error=False, description="A token from `fstune token create`.")
_cookie = APIKeyCookie(name=COOKIE, auto_error=False, description="Used by the web pages only.")


@dataclass(frozen=True, slots=True)
class Visitor:
    """A caller. ``token``: None where none is needed; ``by_cookie``: sent by a web page."""

    token: Token | None
    by_cookie: bool = False

    @property
    def name(self) -> str:
        """The name to record for this caller."""
        return "the service" if self.token is None else f"{self.token.name}, over HTTP"

    @property
    def scope(self) -> Scope:
        """What the visitor may do."""
        return Scope.READ if self.token is None else self.token.scope


def visitor(request: Request, serving: Service) -> Visitor | None:
    """Identify the caller of a request; None if a token is required but no valid one was sent."""
    if not serving.settings.auth:
        return Visitor(None)
    scheme, _, text = request.headers.get("authorization", "").partition(" ")
    # Other schemes are of a proxy in front of the service; a browser sends them with the cookie.
    by_cookie = scheme.lower() != "bearer"
    if by_cookie:
        text = request.cookies.get(COOKIE, "")  # the only cookie that is left: see ``LimitsLayer``
    token = serving.access.token_of(text.strip(), datetime.now(UTC)) if text else None
    request.state.is_known = token is not None
    return None if token is None else Visitor(token, by_cookie)


def is_known(request: Request) -> bool:
    """Whether a request may be told the details of a problem: not before ``visitor`` has found a
    valid token, where one is required.
    """
    return not service(request).settings.auth or getattr(request.state, "is_known", False)


def needs(scope: Scope) -> Callable[[Request, Service, object, object], Visitor]:
    """Dependency for routes that require ``scope``. It raises RequestError if access is denied."""

    def check(
        request: Request,
        serving: Serving,
        _token: Annotated[object, Depends(_bearer)],
        _session: Annotated[object, Depends(_cookie)],
    ) -> Visitor:
        caller = visitor(request, serving)
        if caller is None:
            raise RequestError(
                HTTPStatus.UNAUTHORIZED,
                "unauthorized",
                "send a valid token: 'Authorization: Bearer ...'; see 'fstune token create'",
                {"WWW-Authenticate": 'Bearer realm="fstune"'},
            )
        refuse_other_origins(request, caller)
        if not caller.scope.allows(scope):
            why = (
                "this service was started without --auth and is read-only"
                if caller.token is None
                else f"this token only allows {caller.scope}; a token for {scope} is needed"
            )
            raise RequestError(HTTPStatus.FORBIDDEN, "forbidden", why)
        return caller

    return check


def refuse_other_origins(request: Request, caller: Visitor) -> None:
    """Reject a change requested by another site's page with the visitor's cookie (CSRF)."""
    if request.method not in _SAFE and caller.by_cookie:
        require_own_page(request)


def require_own_page(request: Request) -> None:
    """Raise RequestError unless a request comes from one of our own pages."""
    if not _same_origin(request):
        raise RequestError(
            HTTPStatus.FORBIDDEN,
            "other-origin",
            "changes and logins are only accepted from the service's own pages; if this was one, "
            "the proxy in front of it must pass on Host and X-Forwarded-Proto, and be trusted "
            "(--trusted-proxy)",
        )


def _same_origin(request: Request) -> bool:
    """Whether a request comes from one of our own pages. Without an Origin header it does not."""
    origin = urlsplit(request.headers.get("origin", ""))
    ours = request.headers.get("host", "")
    return bool(ours) and secrets.compare_digest(
        f"{origin.scheme}://{origin.netloc}".encode(), f"{request.url.scheme}://{ours}".encode()
    )


def still_valid(serving: Service, who: Visitor) -> bool:
    """Whether a visitor's token is still valid."""
    return who.token is None or serving.access.holds(who.token, datetime.now(UTC))


_admin, _operate, _read = needs(Scope.ADMIN), needs(Scope.OPERATE), needs(Scope.READ)

#: For routers: checked before anything is looked up.
READ, OPERATE, ADMIN = Depends(_read), Depends(_operate), Depends(_admin)
Reader = Annotated[Visitor, Depends(_read)]
Operator = Annotated[Visitor, Depends(_operate)]
Admin = Annotated[Visitor, Depends(_admin)]
