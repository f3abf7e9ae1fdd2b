"""Makes the application: its routes, and one shape for every error (RFC 9457 problem details)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

import tuner
from api.campaigns import router
from tuner.errors import TunerError
from tuner.settings import Settings
from tuner.store import Store

_PROBLEM = "application/problem+json"


def create_app(state_directory: Path | None = None) -> FastAPI:
    """The application for one state directory; without one, for what the settings name."""
    settings = Settings()
    directory, database = state_directory, None
    if directory is None:
        directory, secret = settings.state_dir, settings.database_url
        database = None if secret is None else secret.get_secret_value()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        with Store.open(directory, database) as store:
            app.state.store = store
            yield

    app = FastAPI(
        title="fstune",
        version=tuner.__version__,
        summary="Campaigns that tune fileservers, and what they recommend",
        lifespan=lifespan,
    )
    app.include_router(router)
    app.add_exception_handler(TunerError, _tuner_error)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(RequestValidationError, _bad_request)
    return app


def _problem(status: int, kind: str, detail: str) -> JSONResponse:
    title = HTTPStatus(status).phrase
    body = {"type": f"urn:fstune:{kind}", "title": title, "status": status, "detail": detail}
    return JSONResponse(body, status_code=status, media_type=_PROBLEM)


async def _tuner_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, TunerError)
    return _problem(error.http_status, error.slug, str(error))


async def _http_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    return _problem(error.status_code, "http", str(error.detail))


async def _bad_request(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    return _problem(HTTPStatus.UNPROCESSABLE_ENTITY, "bad-input", f"{where}: {first['msg']}")
