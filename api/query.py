"""Refuse query parameters that a route does not have: a misspelt one would silently do nothing."""

from __future__ import annotations

from http import HTTPStatus

from fastapi import Request, params
from fastapi.dependencies.utils import get_flat_params
from fastapi.routing import APIRoute

from api.problems import RequestError
from tuner.documents import meant


def refuse_unknown_parameters(request: Request) -> None:
    """Raise RequestError if the query has a parameter that the route does not have."""
    if not request.query_params:
        return
    route = request.scope["route"]
    assert isinstance(route, APIRoute)
    fields = get_flat_params(route.dependant)
    names = sorted(field.alias for field in fields if isinstance(field.field_info, params.Query))
    for name in request.query_params:
        if name not in names:
            there_are = f"; known: {', '.join(names)}" if names else "; this route has none"
            raise RequestError(
                HTTPStatus.UNPROCESSABLE_ENTITY,
                "bad-input",
                f"query.{name}: unknown parameter{meant(name, names) or there_are}",
            )
