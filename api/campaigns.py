"""Routes that tell about campaigns. They read; starting and steering a campaign is the command
line's.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Depends, Request
from pydantic import BaseModel

from tuner.campaign.comparing import stored_comparisons
from tuner.campaign.drift import drift
from tuner.campaign.rules import stored_rules
from tuner.errors import NotFoundError
from tuner.model import BlockKind, Campaign
from tuner.report.recommend import RecommendationDocument, recommendation_document
from tuner.states import CampaignState
from tuner.store import Store

router = APIRouter()


class CampaignSummary(BaseModel):
    """A campaign at a glance. ``answer``: null until it has one."""

    id: str
    name: str
    state: CampaignState
    reason: str
    created: datetime
    updated: datetime
    answer: str | None


class BaselinePoint(BaseModel):
    """The baseline in one complete block: its geometric-mean time over its mean of all blocks."""

    block: int
    kind: BlockKind
    started: datetime
    ratio: float


class Health(BaseModel):
    """That the service runs."""

    status: str


def _store(request: Request) -> Store:
    store = request.app.state.store
    assert isinstance(store, Store)
    return store


Stored = Annotated[Store, Depends(_store)]


@router.get("/healthz", operation_id="health")
def health() -> Health:
    """Whether the service answers."""
    return Health(status="ok")


@router.get("/v1/campaigns", operation_id="list_campaigns")
def list_campaigns(store: Stored) -> list[CampaignSummary]:
    """All campaigns, newest first."""
    return [_summary(campaign) for campaign in store.campaigns()]


@router.get("/v1/campaigns/{campaign}", operation_id="get_campaign")
def get_campaign(campaign: str, store: Stored) -> CampaignSummary:
    """One campaign, by identifier, the beginning of one, or ``last``."""
    return _summary(store.campaign(campaign))


@router.get("/v1/campaigns/{campaign}/recommendation", operation_id="get_recommendation")
def get_recommendation(campaign: str, store: Stored) -> RecommendationDocument:
    """What a campaign recommends: settings, ready-made options, and the evidence."""
    found = store.campaign(campaign)
    if found.recommendation is None:
        raise NotFoundError(f"campaign {found.id} is {found.state} and has no answer yet")
    return recommendation_document(
        found,
        found.recommendation,
        client=store.measured(found.id),
        references=stored_comparisons(found, store.blocks(found.id)),
    )


@router.get("/v1/campaigns/{campaign}/drift", operation_id="get_drift")
def get_drift(campaign: str, store: Stored) -> list[BaselinePoint]:
    """How the baseline moved from block to block, in the order measured."""
    found = store.campaign(campaign)
    rules = stored_rules(found)
    points = drift(store.blocks(found.id), rules.components, rules.weights)
    return [BaselinePoint.model_validate(point, from_attributes=True) for point in points]


def _summary(campaign: Campaign) -> CampaignSummary:
    answer = campaign.recommendation
    return CampaignSummary(
        id=campaign.id,
        name=campaign.name,
        state=campaign.state,
        reason=campaign.reason,
        created=campaign.created,
        updated=campaign.updated,
        answer=None if answer is None else str(answer.answer),
    )
