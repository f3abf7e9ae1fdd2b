"""The path below which a proxy publishes the service: ASGI's ``root_path``.

Every address that a browser or program is to follow begins with it.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request


def root_of(request: Request) -> str:
    """The path below which the service is published, without a slash at its end; "" for none."""
    # A mount, as that of the static files, replaces the root path by its own.
    scope = request.scope
    return str(scope.get("app_root_path", scope.get("root_path", "")))


def inner_path(request: Request) -> str:
    """The requested path, from the root of the service."""
    return request.url.path.removeprefix(root_of(request))


Root = Annotated[str, Depends(root_of)]
