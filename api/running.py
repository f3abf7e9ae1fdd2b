"""Route for the status of running campaigns, waiting campaigns and workers."""

from __future__ import annotations

from fastapi import APIRouter

from api import problems
from api.authorisation import READ
from api.query import STRICT
from api.service import Serving
from tuner.records.status import Status
from tuner.run.presence import status

router = APIRouter(
    prefix="/v1", tags=["campaigns"], dependencies=[STRICT, READ], responses=problems.responses()
)


@router.get("/status", operation_id="get_status")
def get_status(serving: Serving) -> Status:
    """List the running campaigns with their processes, testbeds and last heartbeats, the
    campaigns waiting for workers, and the workers.
    """
    return status(serving.store)
