"""Build the ASGI application: routes, middleware and application-lifetime objects."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.staticfiles import StaticFiles

import tuner
from api import (
    applying,
    campaigns,
    catalogue,
    health,
    pages,
    problems,
    running,
    steering,
    verifying,
)
from api.authorisation import is_known
from api.connections import END_STREAMS
from api.exports import Exports
from api.lost_requests import clearing_lost_requests
from api.middleware import Buckets, HeadersLayer, HeadLayer, LimitsLayer
from api.service import Service
from api.starting import Starter
from api.watching import Feeds
from tuner.errors import SpecError
from tuner.page.effects_cache import EffectsCache
from tuner.page.snapshot import SnapshotCache
from tuner.services.kinds import offers
from tuner.settings import ServiceSettings, Settings
from tuner.store import Store
from tuner.store.access import Access
from tuner.store.pages import Pages

_ROUTERS: tuple[APIRouter, ...] = (
    health.router,
    campaigns.router,
    running.router,
    steering.router,
    applying.router,
    verifying.router,
    catalogue.router,
    applying.every,
    pages.router,
)
#: How long a request waits for a lost database. Each takes a thread meanwhile, of which there are
#: few; clients repeat a request that was answered with 503.
_PATIENCE_S = 5.0


def create_app(
    state_directory: Path | None = None, settings: ServiceSettings | None = None
) -> FastAPI:
    """Create the application for a state directory, by default the one set in the environment."""
    options = settings if settings is not None else ServiceSettings()
    if unknown := sorted(options.allow - offers().keys()):
        raise SpecError(f"FSTUNE_API_ALLOW: {unknown[0]} is not one of {', '.join(offers())}")
    directory, database = state_directory, None
    if directory is None:
        place = Settings()
        directory, secret = place.state_dir, place.database_url
        database = None if secret is None else secret.get_secret_value()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[dict[str, Any]]:
        effects = EffectsCache(files=False)
        with (
            Store.open(directory, database, _PATIENCE_S) as store,
            # For what is recorded in the background, which nobody would repeat.
            Store.open(directory, database) as patient_store,
            closing(SnapshotCache(store, files=False)) as snapshots,
            closing(effects),
        ):
            feeds = Feeds(store, options.streams)
            app.state.service = Service(
                directory=directory,
                database=database,
                settings=options,
                store=store,
                pages=Pages(store),
                access=Access(store),
                snapshots=snapshots,
                effects=effects,
                feeds=feeds,
                exports=Exports(store, directory),
                starter=Starter(
                    patient_store, directory, database, most=options.runs, queue=options.queue
                ),
            )
            async with clearing_lost_requests(patient_store):
                yield {END_STREAMS: feeds.end}

    app = FastAPI(
        title="fstune",
        version=tuner.__version__,
        summary="Campaigns that tune fileservers, and what they recommend",
        lifespan=lifespan,
        # The built-in documentation pages would load scripts from third-party hosts.
        docs_url=None,
        redoc_url=None,
    )
    # Not include_router(): it makes every route anew, and the first request would wait for that.
    for router in _ROUTERS:
        app.router.routes.extend(router.routes)
    app.mount(
        "/static",
        StaticFiles(packages=[("api", "static"), ("tuner.page", "static")]),
        name="static",
    )
    problems.install(app, pages.problem_page, is_known)
    _document_problems(app)
    hosts = None if options.auth else options.hosts
    app.add_middleware(
        LimitsLayer, buckets=Buckets(options.requests_per_s, options.burst), hosts=hosts
    )
    app.add_middleware(HeadersLayer)
    app.add_middleware(HeadLayer)
    return app


def _document_problems(app: FastAPI) -> None:
    """Add the ``Problem`` schema to the OpenAPI document."""
    make = app.openapi

    def openapi() -> dict[str, Any]:
        document = make()
        schemas = document.setdefault("components", {}).setdefault("schemas", {})
        schemas["Problem"] = problems.Problem.model_json_schema()
        return document

    app.openapi = openapi  # type: ignore[method-assign]
