"""Uniform error responses: problem details (RFC 9457)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.routing import Match

from api.root import inner_path, root_of
from tuner.documents import mistakes
from tuner.errors import StoreError, TunerError

MEDIA_TYPE = "application/problem+json"

_log = logging.getLogger(__name__)
_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
#: HEAD is answered as GET, see ``HeadLayer``.
_AS = {"HEAD": "GET"}
_KINDS = {404: "not-found", 405: "method-not-allowed", 413: "too-large"}


class Problem(BaseModel):
    """An error. ``type``: stable, machine-readable URN; ``detail``: human-readable sentence."""

    type: str
    title: str
    status: int
    detail: str


class RequestError(Exception):
    """A rejected request: its status, kind of problem and reason."""

    def __init__(
        self, status: HTTPStatus, kind: str, detail: str, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.kind = kind
        self.headers = dict(headers or {})


def problem(
    status: int, kind: str, detail: str, headers: Mapping[str, str] | None = None
) -> JSONResponse:
    """The response for a problem."""
    title = HTTPStatus(status).phrase
    body = Problem(type=f"urn:fstune:{kind}", title=title, status=status, detail=detail)
    return JSONResponse(
        body.model_dump(), status_code=status, media_type=MEDIA_TYPE, headers=dict(headers or {})
    )


def responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """OpenAPI responses for the problems of a route, including those common to all routes."""
    return {
        status: {
            "description": HTTPStatus(status).phrase,
            "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
        }
        for status in sorted({*statuses, 400, 401, 403, 413, 422, 429, 500, 503})
    }


def _methods_of(request: Request) -> list[str]:
    """The methods supported for the requested path, over all routers."""
    routes = request.app.routes
    scopes = {method: {**request.scope, "method": _AS.get(method, method)} for method in _METHODS}
    methods = [m for m, s in scopes.items() if any(r.matches(s)[0] is Match.FULL for r in routes)]
    return methods or ["GET", "HEAD"]  # static files: in their mount, no route has this path


def _mistakes(request: Request, errors: Sequence[Mapping[str, Any]]) -> str:
    """Return what is wrong with a request, in one line: in its URL and headers or in its body."""
    first = errors[0]
    if first["type"] == "json_invalid":
        return f"the body is not JSON: {first['ctx']['error']} at character {first['loc'][-1]}"
    if elsewhere := [error for error in errors if error["loc"][0] != "body"]:
        return mistakes(elsewhere, BaseModel, "the request")
    field = getattr(request.scope["route"], "body_field", None)
    form = None if field is None else field.field_info.annotation
    model = form if isinstance(form, type) and issubclass(form, BaseModel) else BaseModel
    if first["loc"] == ("body",) and not _is_json(request):
        return "the body: send JSON, with the header 'Content-Type: application/json'"
    inside = [{**error, "loc": error["loc"][1:]} for error in errors]
    return mistakes(inside, model, "the body")


def _is_json(request: Request) -> bool:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    return kind.startswith("application/") and kind.endswith(("/json", "+json"))


def _left_in_path(request: Request) -> str:
    """What to tell about a proxy that leaves the root path in what it passes on; "" otherwise."""
    root = root_of(request)
    if not root or not f"{inner_path(request)}/".startswith(f"{root}/"):
        return ""
    return f"a proxy in front of this service must remove {root} from the path (--root-path)"


Page = Callable[[Request, Problem], Response | None]


#: What fastapi says of a body that Python's JSON parser fails to read in another way than usual.
_UNREADABLE = "There was an error parsing the body"


def _instead_of(detail: str, sentence: str) -> str:
    """Return the sentence instead of what is only the name of the status, otherwise `detail`."""
    return sentence if detail in ("Not Found", "Method Not Allowed") else detail


def install(app: FastAPI, page: Page, is_known: Callable[[Request], bool]) -> None:
    """Install handlers that return every error as a problem.

    ``page``: returns an HTML page instead where the client is a browser. ``is_known``: whether the
    sender of a request may be told where the database is.
    """
    logged = ""

    def answer(
        request: Request,
        status: int,
        kind: str,
        detail: str,
        headers: Mapping[str, str] | None = None,
    ) -> Response:
        what = Problem(
            type=f"urn:fstune:{kind}", title=HTTPStatus(status).phrase, status=status, detail=detail
        )
        return page(request, what) or problem(status, kind, detail, headers)

    async def request_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestError)
        return answer(request, error.status, error.kind, str(error), error.headers)

    async def tuner_error(request: Request, error: Exception) -> Response:
        nonlocal logged
        assert isinstance(error, TunerError)
        detail = str(error)
        if isinstance(error, StoreError) and not is_known(request):
            if detail != logged:  # a request of anybody adds no line after the first
                _log.warning("%s", detail)
                logged = detail
            detail = "the database cannot be used; see the log of the service"
        return answer(request, error.http_status, error.slug, detail)

    async def http_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        kind = _KINDS.get(error.status_code, "http")
        headers = dict(error.headers or {})
        if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
            headers["Allow"] = ", ".join(_methods_of(request))
        detail = str(error.detail)
        if detail == _UNREADABLE:
            detail = "the body is not JSON in UTF-8, or is nested too deeply"
            return answer(request, HTTPStatus.UNPROCESSABLE_ENTITY, "bad-input", detail)
        if error.status_code == HTTPStatus.NOT_FOUND:
            detail = _left_in_path(request) or _instead_of(detail, "there is no such address")
        elif "Allow" in headers:
            detail = _instead_of(detail, f"this address accepts {headers['Allow']} only")
        return answer(request, error.status_code, kind, detail, headers)

    async def bad_request(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        detail = _mistakes(request, error.errors())
        return answer(request, HTTPStatus.UNPROCESSABLE_ENTITY, "bad-input", detail)

    async def defect(request: Request, error: Exception) -> Response:
        # Log the details but do not return them: they may contain confidential data.
        _log.error("a defect while answering %s", request.scope.get("path", ""), exc_info=error)
        detail = "a bug in fstune; see the log of the service"
        return answer(request, HTTPStatus.INTERNAL_SERVER_ERROR, "defect", detail)

    app.add_exception_handler(RequestError, request_error)
    app.add_exception_handler(TunerError, tuner_error)
    app.add_exception_handler(HTTPException, http_error)
    app.add_exception_handler(RequestValidationError, bad_request)
    app.add_exception_handler(Exception, defect)
