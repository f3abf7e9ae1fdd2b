"""Read-only routes for campaigns: their state, measurements, verdicts and recommendations."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Depends, Header, Query, Response
from fastapi.sse import EventSourceResponse, ServerSentEvent

from api import problems
from api.authorisation import READ, Reader, still_valid
from api.documents import (
    BlockDocument,
    CampaignDocument,
    ComparisonDocument,
    DriftDocument,
    EventDocument,
    MeasurementDocument,
    PresenceDocument,
    TrialDocument,
    VerdictDocument,
    WhyDocument,
)
from api.exports import MEDIA_TYPE
from api.paging import LARGEST, After, Limit, Page, PageToken, after_number, page, read_token
from api.query import STRICT
from api.service import PathCampaign, Service, Serving, service
from api.watching import Presence
from tuner.errors import NotFoundError, SpecError
from tuner.model import Campaign
from tuner.page.conditions import noise
from tuner.page.document import Noise
from tuner.page.forms import ReportForm, file_name, report_text
from tuner.page.html import policy
from tuner.page.why import why
from tuner.plan.rules import rules_if_known
from tuner.report.parameter_effects import EffectsDocument, effects_document
from tuner.report.recommendation_document import RecommendationDocument, recommendation_document
from tuner.results.expiry import expiries, with_expiry
from tuner.results.overview import reference_comparisons

router = APIRouter(
    prefix="/v1/campaigns",
    tags=["campaigns"],
    dependencies=[STRICT, READ],
    responses=problems.responses(404),
)


@router.get("", operation_id="list_campaigns")
def list_campaigns(
    serving: Serving, limit: Limit = 50, token: PageToken = None
) -> Page[CampaignDocument]:
    """List all campaigns, newest first."""
    campaigns = serving.pages.campaigns(limit + 1, older_than(read_token(token, str, str)))
    reasons = expiries(serving.store, campaigns)
    return page(
        campaigns,
        limit,
        lambda c: (c.created.isoformat(), c.id),
        lambda c: CampaignDocument.with_reason(c, reasons.get(c.id, "")),
    )


@router.get("/{campaign}", operation_id="get_campaign")
def get_campaign(campaign: PathCampaign, serving: Serving) -> CampaignDocument:
    """Get a campaign. Send its ETag as `If-Match` when changing the campaign."""
    return CampaignDocument.of(campaign, serving.store)


@router.get("/{campaign}/trials", operation_id="list_trials")
def list_trials(
    campaign: PathCampaign, serving: Serving, limit: Limit = 100, token: PageToken = None
) -> Page[TrialDocument]:
    """List a campaign's trials, by number."""
    trials = serving.pages.trials(campaign.id, after_number(token, -1), limit + 1)
    return page(trials, limit, lambda trial: (trial.number,), TrialDocument.model_validate)


@router.get("/{campaign}/blocks", operation_id="list_blocks")
def list_blocks(
    campaign: PathCampaign,
    serving: Serving,
    limit: Limit = 100,
    token: PageToken = None,
    after: After = 0,
) -> Page[BlockDocument]:
    """List a campaign's blocks, by number."""
    blocks = serving.pages.blocks(campaign.id, after_number(token, after), limit + 1)
    return page(
        blocks,
        limit,
        lambda row: (row.block.number,),
        lambda row: BlockDocument.of(row.block, row.measured),
    )


@router.get("/{campaign}/measurements", operation_id="list_measurements")
def list_measurements(
    campaign: PathCampaign, serving: Serving, limit: Limit = 100, token: PageToken = None
) -> Page[MeasurementDocument]:
    """List a campaign's measurements, in the order they were made."""
    key = read_token(token, int, int)
    after = (0, 0) if key is None else (int(key[0]), int(key[1]))
    measurements = serving.pages.measurements(campaign.id, after, limit + 1)
    return page(
        measurements,
        limit,
        lambda one: (one[0], one[1].position),
        lambda one: MeasurementDocument.of(*one),
    )


@router.get("/{campaign}/verdicts", operation_id="list_verdicts")
def list_verdicts(campaign: PathCampaign, serving: Serving) -> list[VerdictDocument]:
    """Compare every trial with the baseline, separately for each kind of block it was in."""
    verdicts = serving.snapshots.verdicts(campaign.id)
    if verdicts is None:
        raise NotFoundError(f"the workload of campaign {campaign.id} is missing or has changed")
    return [VerdictDocument.of(one.trial, one.kind, one.verdict) for one in verdicts]


@router.get("/{campaign}/drift", operation_id="get_drift")
def get_drift(campaign: PathCampaign, serving: Serving) -> list[DriftDocument]:
    """Drift of the baseline from block to block, in the order measured."""
    drift = serving.snapshots.of(campaign.id).drift
    return [DriftDocument.model_validate(point) for point in drift]


@router.get("/{campaign}/effects", operation_id="get_effects")
def get_effects(campaign: PathCampaign, serving: Serving) -> EffectsDocument:
    """Parameter effects estimated by the search model: a hint where to look, not a claim."""
    return effects_document(serving.effects.of(serving.snapshots.of(campaign.id)))


@router.get("/{campaign}/comparison", operation_id="get_comparison")
def get_comparison(campaign: PathCampaign, serving: Serving) -> ComparisonDocument:
    """Results so far of a campaign that compares given configurations."""
    comparison = serving.snapshots.comparison(campaign.id)
    if comparison is None:
        raise NotFoundError(f"campaign {campaign.id} compares no given configurations")
    return ComparisonDocument.of(comparison)


@router.get("/{campaign}/why", operation_id="get_why")
def get_why(campaign: PathCampaign, serving: Serving) -> WhyDocument:
    """Explain the recommended settings by the changes in the diagnostics.

    Before there is an answer, those of the incumbent.
    """
    answer = campaign.recommendation
    trial = serving.snapshots.of(campaign.id).leader if answer is None else answer.trial
    return WhyDocument(trial=trial, sentences=why(serving.store, campaign.id, trial))


@router.get("/{campaign}/noise", operation_id="get_noise")
def get_noise(campaign: PathCampaign, serving: Serving) -> Noise:
    """Noise of a difference of two runs, with one measure against it after the other."""
    rules = rules_if_known(campaign, serving.store.measured_with)
    if rules is None:
        raise NotFoundError(
            f"the workload of campaign {campaign.id} is missing or has changed: restore its file"
        )
    report = noise(serving.store, campaign.id, rules)
    if report is None:
        raise NotFoundError(
            f"campaign {campaign.id} has too few repeated measurements to estimate its noise: ask "
            "again after more blocks (9 of a pilot are enough); if its workload's file now has "
            "other components, restore the file"
        )
    return report


@router.get("/{campaign}/recommendation", operation_id="get_recommendation")
def get_recommendation(campaign: PathCampaign, serving: Serving) -> RecommendationDocument:
    """Get the recommendation: settings, ready-to-use options and the evidence."""
    return recommendation_of(serving, campaign)


def recommendation_of(serving: Service, campaign: Campaign) -> RecommendationDocument:
    """The campaign's recommendation document. Raises NotFoundError if it has no answer yet."""
    if campaign.recommendation is None:
        raise NotFoundError(f"campaign {campaign.id} is {campaign.state} and has no answer yet")
    campaign = with_expiry(serving.store, campaign)
    assert campaign.recommendation is not None
    return recommendation_document(
        campaign,
        campaign.recommendation,
        client=serving.store.measured_programs(campaign.id),
        references=reference_comparisons(serving.store, campaign, serving.store.measured_with),
        why=why(serving.store, campaign.id, campaign.recommendation.trial),
    )


@router.get(
    "/{campaign}/export",
    operation_id="export_campaign",
    response_class=Response,
    responses={
        200: {
            "description": "The file. Its name is in `Content-Disposition`.",
            "content": {MEDIA_TYPE: {"schema": {"type": "string", "format": "binary"}}},
        }
    },
)
def export_campaign(campaign: PathCampaign, serving: Serving) -> Response:
    """Export a campaign as one file for `fstune import`. A running campaign is not interrupted."""
    return serving.exports.response(campaign.id)


@router.get(
    "/{campaign}/report",
    operation_id="get_report",
    response_class=Response,
    responses={
        200: {
            "description": "The report, one file. Its name is in `Content-Disposition`.",
            "content": {
                "text/html": {"schema": {"type": "string"}},
                "text/markdown": {"schema": {"type": "string"}},
                # The fields are described in docs/programs.md.
                "application/json": {"schema": {"type": "object"}},
            },
        }
    },
)
def get_report(
    campaign: PathCampaign,
    serving: Serving,
    form: Annotated[
        ReportForm, Query(alias="format", description="File format of the report.")
    ] = ReportForm.HTML,
) -> Response:
    """Report for readers who did not follow the campaign. Available in every state."""
    name = file_name(campaign.id, form)
    headers = {"Content-Disposition": f'inline; filename="{name}"'}
    if form is ReportForm.HTML:
        headers["Content-Security-Policy"] = f"{policy()}; frame-ancestors 'none'"
    with serving.exports.turn():
        text = report_text(serving.snapshots, campaign.id, form, serving.effects)
    return Response(text, media_type=form.media_type, headers=headers)


@router.get("/{campaign}/events", operation_id="list_events")
def list_events(
    campaign: PathCampaign,
    serving: Serving,
    limit: Limit = 100,
    token: PageToken = None,
    after: After = 0,
    kinds: Annotated[
        str, Query(max_length=500, description="Only these kinds, separated by commas; empty: all.")
    ] = "",
    newest: Annotated[
        int | None,
        Query(ge=1, le=1000, description="Only so many of the newest ones, in one page."),
    ] = None,
) -> Page[EventDocument]:
    """List a campaign's events, in order."""
    only = [kind for kind in kinds.split(",") if kind]
    if newest is not None:
        if token is not None:
            raise SpecError("newest: all of them are in one page, so there is no other page")
        last = serving.pages.events(campaign.id, after, kinds=only, last=newest)
        return Page(items=[EventDocument.model_validate(event) for event in last], next=None)
    first = after_number(token, after)
    events = serving.store.events(campaign.id, first, limit + 1, kinds=only or None)
    return page(events, limit, lambda event: (event.number,), EventDocument.model_validate)


def stream_place(
    serving: Annotated[Service, Depends(service)],
    after: Annotated[
        int | None, Query(ge=0, le=LARGEST, description="Start after this event number.")
    ] = None,
    last_event_id: Annotated[str | None, Header(max_length=20)] = None,
) -> int:
    """Number of the event after which to start streaming. ``Last-Event-ID`` takes precedence.

    Raises RequestError when too many streams are open, SpecError for an invalid header.
    """
    serving.feeds.refuse_too_many()
    if last_event_id is None:
        return after or 0
    if not (last_event_id.isascii() and last_event_id.isdigit()):
        raise SpecError("Last-Event-ID: not the number of an event")
    return min(LARGEST, int(last_event_id))


@router.get(
    "/{campaign}/events/stream",
    operation_id="stream_events",
    response_class=EventSourceResponse,
)
async def stream_events(
    campaign: PathCampaign,
    serving: Annotated[Service, Depends(service)],
    who: Reader,
    after: Annotated[int, Depends(stream_place)],
) -> AsyncIterator[ServerSentEvent]:
    """Stream events as they happen (server-sent events). Each event's ID is its number.

    A client that was disconnected reconnects with `Last-Event-ID` and misses nothing. An event of
    type `over` means that the campaign has ended and no events follow. An event of type `presence`
    has no ID: it reports that the process running the campaign has stopped sending heartbeats, or
    is alive again. The stream ends within seconds after its token is revoked or expires.
    """
    async for event in serving.feeds.watch(campaign.id, after, lambda: still_valid(serving, who)):
        if event is None:
            yield ServerSentEvent(event="over", data={})
            return
        if isinstance(event, Presence):
            yield ServerSentEvent(event="presence", data=PresenceDocument.of(event.absence))
            continue
        yield ServerSentEvent(
            id=str(event.number), event="campaign", data=EventDocument.model_validate(event)
        )


def older_than(key: Sequence[str | int] | None) -> tuple[datetime, str] | None:
    """Decode the start of a page of campaigns from its key. Raises SpecError if invalid."""
    if key is None:
        return None
    try:
        at, campaign = datetime.fromisoformat(str(key[0])), str(key[1])
        # What the database cannot take: times before the year 1 in UTC, and half a character.
        at.astimezone(UTC)
        campaign.encode()
    except (ValueError, OverflowError):
        at, campaign = None, ""
    if at is None or at.tzinfo is None or "\0" in campaign:
        raise SpecError("page: not the `next` of an earlier page")
    return at, campaign
