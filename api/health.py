"""Monitoring routes: liveness, readiness and metrics."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Response
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector
from pydantic import BaseModel

from api import problems
from api.authorisation import READ
from api.service import Service, Serving
from tuner.work.metrics import StoredCampaigns

router = APIRouter(tags=["health"], responses=problems.responses())


class Health(BaseModel):
    """Health of the service."""

    status: str


@router.get("/healthz", operation_id="health")
async def health() -> Health:
    """Whether the service answers."""
    # Not in a thread: all of them may be waiting for the database.
    return Health(status="ok")


@router.get("/readyz", operation_id="ready")
def ready(serving: Serving) -> Health:
    """Whether the service is ready: the database answers, and its file is where it was opened."""
    serving.pages.check_ready()
    return Health(status="ok")


class _Streams(Collector):
    """Number of open event streams at the time of the request."""

    def __init__(self, serving: Service) -> None:
        self._serving = serving

    def collect(self) -> Any:
        """Yield the metric family."""
        yield GaugeMetricFamily(
            "fstune_event_streams",
            "Streams of events that are open.",
            value=self._serving.feeds.watchers,
        )


@router.get(
    "/metrics",
    operation_id="metrics",
    dependencies=[READ],
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
def metrics(serving: Serving) -> Response:
    """Metrics for Prometheus."""
    registry = CollectorRegistry()
    registry.register(StoredCampaigns(serving.pages.counts))
    registry.register(_Streams(serving))
    return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)
