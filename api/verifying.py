"""Routes that verify a recommended configuration against the previous one.

A verification runs in a separate process that records campaign events; these routes read them.
"""

from __future__ import annotations

from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any

from fastapi import APIRouter, Response
from pydantic import BaseModel, ConfigDict, Field

from api import problems
from api.authorisation import ADMIN, READ, Admin
from api.documents import Document
from api.query import STRICT
from api.root import Root
from api.service import PathCampaign, Serving
from tuner.apply.destination import recommended
from tuner.apply.verify_verdict import LEAST_BLOCKS
from tuner.model import Event
from tuner.states import EventData, EventKind, VerifyOutcome
from tuner.store import NewEvent
from tuner.store.imported_rows import wrong_data
from tuner.store.verifications import Verifications

router = APIRouter(
    prefix="/v1/campaigns",
    tags=["applications"],
    dependencies=[STRICT],
    responses=problems.responses(404),
)

_STATES = {EventKind.VERIFY_REQUESTED: "requested", EventKind.VERIFIED: "done"}


class VerificationRequest(BaseModel):
    """How much to measure. ``blocks``: number of fresh blocks; each has both configurations."""

    model_config = ConfigDict(extra="forbid")

    blocks: int = Field(default=10, ge=LEAST_BLOCKS, le=500)


class VerificationDocument(Document):
    """A verification, or a request for one.

    ``number``: number of its event. ``request``: number of the event that requested it, null if
    it was not requested over HTTP. ``outcome``: null while it is pending, or if it failed.
    ``text``: a sentence. ``caveat``: that neither configuration was in effect before, or that runs
    of the recommended one failed, which no measurement contains; empty if there is nothing of that
    kind. ``verification``: the campaign that contains its measurements. ``ratio``, ``lower``,
    ``upper``: the recommended configuration's time relative to the previous one, with its interval
    at ``confidence``.
    """

    number: int
    at: datetime
    state: str
    text: str
    request: int | None = None
    outcome: VerifyOutcome | None = None
    reason: str | None = None
    caveat: str = ""
    verification: str | None = None
    ratio: float | None = None
    lower: float | None = None
    upper: float | None = None
    confidence: float | None = None
    blocks: int | None = None

    @classmethod
    def of(cls, event: Event) -> VerificationDocument:
        """Convert an event; earlier releases stored fewer fields, and others differently."""
        data = {
            name: value
            for name, value in event.data.items()
            if wrong_data(event.kind, {name: value}, 0) is None
        }
        stored_fields = {name: value for name, value in data.items() if name in cls.model_fields}
        state = _STATES.get(EventKind(event.kind), "failed")
        fields: dict[str, Any] = {"number": event.number, "at": event.at, "state": state}
        link = data.get("campaign") if event.kind == EventKind.VERIFIED else None
        return cls(**{**stored_fields, **fields, "text": event.message, "verification": link})


@router.get("/{campaign}/verifications", operation_id="list_verifications", dependencies=[READ])
def list_verifications(campaign: PathCampaign, serving: Serving) -> list[VerificationDocument]:
    """List all verification requests and results, in chronological order."""
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
    root: Root,
    answer: Response,
) -> VerificationDocument:
    """Measure the recommended configuration against the previous one in fresh blocks of both.

    Like a campaign, it restarts the tuned programs; afterwards it restores the settings in effect.
    The result is the list entry whose `request` equals the `number` of this answer. Until it
    appears, further requests are rejected.
    """
    recommended(campaign)
    serving.starter.refuse_queue("verify", campaign.id)
    serving.starter.refuse_too_many()
    message = f"{who.name} asked to verify it in {request.blocks} blocks"
    data: EventData = {"blocks": request.blocks, "asked_by": who.name}
    event = NewEvent(datetime.now(UTC), EventKind.VERIFY_REQUESTED, message, data)
    verifications = Verifications(serving.store)
    requested = verifications.ask(campaign.id, event)
    try:
        serving.starter.start_verification(campaign.id, request.blocks, requested.number)
    except Exception:  # whatever the cause, allow it to be requested again
        verifications.fail(campaign.id, requested.number, "it did not start")
        raise
    answer.headers["Location"] = f"{root}/v1/campaigns/{campaign.id}/verifications"
    return VerificationDocument.of(requested)
