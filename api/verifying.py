"""Routes that measure a recommended configuration against the previous one again.

It runs in a process of its own, which writes events of the campaign; they are read here.
"""

from __future__ import annotations

from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any

from fastapi import APIRouter, Response
from pydantic import BaseModel, ConfigDict, Field

from api import problems
from api.documents import Document
from api.service import ADMIN, READ, Admin, PathCampaign, Serving
from tuner.apply.place import recommended
from tuner.apply.verdict import LEAST_BLOCKS, VerifyOutcome
from tuner.model import Event
from tuner.states import EventKind
from tuner.store import NewEvent
from tuner.store.verifications import Verifications

router = APIRouter(prefix="/v1/campaigns", tags=["applications"], responses=problems.responses(404))

_STATES = {EventKind.VERIFY_REQUESTED: "requested", EventKind.VERIFIED: "done"}


class VerificationRequest(BaseModel):
    """How long to measure. ``blocks``: fresh ones, with both configurations in each."""

    model_config = ConfigDict(extra="forbid")

    blocks: int = Field(default=10, ge=LEAST_BLOCKS, le=500)


class VerificationDocument(Document):
    """A verification. ``number``: of the event that tells of it; ``request``: of the event that
    asked for what came of it here, null for one that nobody has asked for over HTTP; ``outcome``:
    null while it is only asked for, or when it failed; ``text``: a sentence; ``verification``: the
    campaign that has its measurements. ``ratio``, ``lower``, ``upper``: the recommended
    configuration's time over that of the previous one, with its interval at ``confidence``.
    """

    number: int
    at: datetime
    state: str
    text: str
    request: int | None = None
    outcome: VerifyOutcome | None = None
    reason: str | None = None
    verification: str | None = None
    ratio: float | None = None
    lower: float | None = None
    upper: float | None = None
    confidence: float | None = None
    blocks: int | None = None

    @classmethod
    def of(cls, event: Event) -> VerificationDocument:
        """The document for an event; earlier releases stored fewer fields."""
        stored_fields = {
            name: value for name, value in event.data.items() if name in cls.model_fields
        }
        state = _STATES.get(EventKind(event.kind), "failed")
        fields: dict[str, Any] = {"number": event.number, "at": event.at, "state": state}
        link = event.data.get("campaign") if event.kind == EventKind.VERIFIED else None
        return cls(**{**stored_fields, **fields, "text": event.message, "verification": link})


@router.get("/{campaign}/verifications", operation_id="list_verifications", dependencies=[READ])
def list_verifications(campaign: PathCampaign, serving: Serving) -> list[VerificationDocument]:
    """All requests for verifications and their results, in order of time."""
    events = Verifications(serving.store).of(campaign.id)
    return [VerificationDocument.of(event) for event in events]


@router.post(
    "/{campaign}/verifications",
    operation_id="verify_recommendation",
    dependencies=[ADMIN],
    status_code=HTTPStatus.ACCEPTED,
    responses=problems.responses(404, 409),
)
def verify_recommendation(
    campaign: PathCampaign,
    request: VerificationRequest,
    serving: Serving,
    who: Admin,
    answer: Response,
) -> VerificationDocument:
    """Measure what is recommended against the previous configuration, in fresh blocks of both.

    It restarts the service as a campaign does, and puts back what is in force. Its result is
    the one of the list whose `request` is the `number` of this answer. Until then another one is
    refused.
    """
    recommended(campaign)
    serving.starter.refuse_queue("verify", campaign.id)
    message = f"{who.name} asked to verify it in {request.blocks} blocks"
    data = {"blocks": request.blocks}
    event = NewEvent(datetime.now(UTC), EventKind.VERIFY_REQUESTED, message, data)
    verifications = Verifications(serving.store)
    requested = verifications.ask(campaign.id, event)
    try:
        serving.starter.start_verification(campaign.id, request.blocks, requested.number)
    except Exception:  # whatever kept it from starting, it can be requested again
        verifications.fail(campaign.id, requested.number, "it did not begin")
        raise
    answer.headers["Location"] = f"/v1/campaigns/{campaign.id}/verifications"
    return VerificationDocument.of(requested)
