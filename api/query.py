"""Refuse unknown query parameters, bodies that a route does not take, and keys given twice.

They would silently do nothing.
"""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Annotated

from fastapi import Depends, Request, params
from fastapi.dependencies.utils import get_flat_params
from fastapi.routing import APIRoute

from api.problems import RequestError
from tuner.documents import meant


async def check_body(request: Request) -> None:
    """Raise RequestError if the request has a body, other than ``{}``, that the route ignores, or
    one in which a key occurs twice.
    """
    route = _route(request)
    if request.method == "GET":
        return
    body = await request.body()
    if not body:
        return
    takes_body = route.body_field is not None
    try:
        document = json.loads(body, object_pairs_hook=_mapping if takes_body else None)
    except (ValueError, RecursionError):
        document = None
    if takes_body or document == {}:
        return
    keys = document if isinstance(document, dict) else {}
    hints = "".join(
        f"; {name} is a query parameter: ?{name}=..." for name in _parameters(route) if name in keys
    )
    raise _bad_input(f"the body: this route takes none{hints}")


def _mapping(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Return a mapping of JSON. Raises RequestError for a key that it has twice: only the last
    would count.
    """
    mapping: dict[str, object] = {}
    for key, value in pairs:
        if key in mapping:
            raise _bad_input(f"the body: the key {key!r} is given twice in one mapping")
        mapping[key] = value
    return mapping


def refuse_unknown_parameters(
    request: Request, _body: Annotated[None, Depends(check_body)]
) -> None:
    """Raise RequestError if the query has a parameter that the route does not have, or one twice,
    or if it has a body and the route takes none, or one in which a key occurs twice.
    """
    if not request.query_params:
        return
    names = _parameters(_route(request))
    for name in request.query_params:
        if name not in names:
            there_are = f"; known: {', '.join(names)}" if names else "; this route has none"
            raise _bad_input(f"query.{name}: unknown parameter{meant(name, names) or there_are}")
        if len(request.query_params.getlist(name)) > 1:
            raise _bad_input(f"query.{name}: it is given twice")


#: For the routers of documents; the pages take what they do not know.
STRICT = Depends(refuse_unknown_parameters)


def _route(request: Request) -> APIRoute:
    route = request.scope["route"]
    assert isinstance(route, APIRoute)
    return route


def _parameters(route: APIRoute) -> list[str]:
    """The names of a route's query parameters, sorted."""
    fields = get_flat_params(route.dependant)
    return sorted(field.alias for field in fields if isinstance(field.field_info, params.Query))


def _bad_input(detail: str) -> RequestError:
    return RequestError(HTTPStatus.UNPROCESSABLE_ENTITY, "bad-input", detail)
