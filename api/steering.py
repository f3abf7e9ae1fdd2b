"""Routes that start and steer campaigns.

The work is done by other processes, so they respond immediately (202).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Body, Header, Query, Response

import search_spaces
import workloads
from api import problems
from api.authorisation import OPERATE, Operator, Visitor
from api.documents import BranchDocument, CampaignDocument
from api.lost_requests import STARTING
from api.middleware import etag
from api.problems import RequestError
from api.query import STRICT
from api.root import Root
from api.service import CampaignName, NamedPathCampaign, PathCampaign, Service, Serving
from tuner.apply.actor import reason_of
from tuner.compose import Prepared, prepare
from tuner.errors import ConflictError, SpecError
from tuner.model import Campaign, Prior, Wish
from tuner.plan.rules import rules_of
from tuner.run.priors import guiding_trials, no_priors, priors
from tuner.run.steering import in_use, refuse_verification, steer
from tuner.run.warm_start import warm_start
from tuner.spec.campaign import CampaignSpec
from tuner.spec.checking import check_measurements
from tuner.spec.testbed_section import TestbedSection
from tuner.states import OVER, EventKind, not_resumable
from tuner.store import NewEvent
from tuner.store.posted_requests import PostedRequest, campaign_of_request

router = APIRouter(
    prefix="/v1/campaigns",
    tags=["steering"],
    dependencies=[STRICT, OPERATE],
    responses=problems.responses(409),
)
_ACCEPTED = HTTPStatus.ACCEPTED
_STEERING = problems.responses(404, 409, 412)

IfMatch = Annotated[
    str | None,
    Header(max_length=200, description="Only if the campaign still has this ETag, otherwise 412."),
]
Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=200,
        description="Makes retries safe: the same request sent again within a day is done once.",
    ),
]
_EXAMPLE = {
    "name": "first try",
    "testbed": {"simulated": {}},
    "spaces": {"cache_manager": {"name": "openafs-cache-manager-fuse-1.8"}},
    "workload": {"name": "mixed-use"},
    "budget": {"wall_time": 3600},
}
SpecBody = Annotated[
    CampaignSpec, Body(openapi_examples={"simulated": {"summary": "To try it", "value": _EXAMPLE}})
]
OverridePilot = Annotated[bool, Query(description="Search even if the pilot advises against it.")]


@router.post("", operation_id="create_campaign", status_code=_ACCEPTED)
def create_campaign(
    spec: SpecBody,
    serving: Serving,
    who: Operator,
    root: Root,
    answer: Response,
    key: Key = None,
) -> CampaignDocument:
    """Start a campaign on packaged search spaces and workloads and a testbed of `/v1/testbeds`.

    It runs in a separate process; follow its `events`.
    """
    campaign, _ = _create(spec, None, serving, who, root, answer, key)
    return CampaignDocument.of(campaign, serving.store)


@router.post(
    "/{campaign}/branch",
    operation_id="branch_campaign",
    status_code=_ACCEPTED,
    responses=problems.responses(404, 409),
)
def branch_campaign(
    campaign: CampaignName,
    spec: SpecBody,
    serving: Serving,
    who: Operator,
    root: Root,
    answer: Response,
    key: Key = None,
) -> BranchDocument:
    """Start a campaign whose search is guided by this one's results; its claims do not use them."""
    branch, unguided = _create(spec, campaign, serving, who, root, answer, key)
    trials = guiding_trials(serving.store.priors(branch.id))
    if not trials and not unguided:
        # The request is repeated. By now that campaign may have measured more, or be deleted.
        unguided = "none could when the campaign was created"
    return BranchDocument(
        **CampaignDocument.of(branch, serving.store).model_dump(),
        guiding_trials=trials,
        unguided=unguided,
    )


@router.post(
    "/{campaign}/pause",
    operation_id="pause_campaign",
    status_code=_ACCEPTED,
    responses=_STEERING,
)
def pause_campaign(
    campaign: PathCampaign, serving: Serving, who: Operator, if_match: IfMatch = None
) -> CampaignDocument:
    """Pause a running campaign at its next safe point."""
    _refuse_stale(serving, campaign, if_match)
    return send_wish(serving, campaign, Wish.PAUSE, who)


@router.post(
    "/{campaign}/cancel",
    operation_id="cancel_campaign",
    status_code=_ACCEPTED,
    responses=_STEERING,
)
def cancel_campaign(
    campaign: NamedPathCampaign, serving: Serving, who: Operator, if_match: IfMatch = None
) -> CampaignDocument:
    """Cancel a campaign permanently; a running one stops at its next safe point.

    `last` is not accepted.
    """
    _refuse_stale(serving, campaign, if_match)
    return send_wish(serving, campaign, Wish.CANCEL, who)


@router.post(
    "/{campaign}/resume",
    operation_id="resume_campaign",
    status_code=_ACCEPTED,
    responses=_STEERING,
)
def resume_campaign(
    campaign: PathCampaign,
    serving: Serving,
    who: Operator,
    override_pilot: OverridePilot = False,
    if_match: IfMatch = None,
) -> CampaignDocument:
    """Resume a campaign that was paused, failed or killed."""
    _refuse_stale(serving, campaign, if_match)
    return resume(serving, campaign, who, override_pilot=override_pilot)


def send_wish(serving: Service, campaign: Campaign, wish: Wish, who: Visitor) -> CampaignDocument:
    """Pause or cancel a campaign. May raise ConflictError."""
    steer(serving.store, campaign, wish, who.name, datetime.now(UTC))
    return CampaignDocument.of(serving.store.campaign(campaign.id), serving.store)


def resume(
    serving: Service, campaign: Campaign, who: Visitor, *, override_pilot: bool = False
) -> CampaignDocument:
    """Resume a stopped campaign. Raises ConflictError if there is nothing to resume, or if the
    operator does not allow its testbeds.
    """
    refuse_verification(serving.store, campaign.id)
    if campaign.state in OVER:
        raise ConflictError(not_resumable(campaign.id, campaign.state))
    if in_use(serving.store, campaign.id):
        raise ConflictError(f"campaign {campaign.id} is already running")
    serving.starter.refuse_queued(campaign.id)
    serving.starter.refuse_too_many()
    _refuse_testbeds(serving, campaign)
    message = f"asked to resume by {who.name}"
    event = NewEvent(datetime.now(UTC), EventKind.RESUME_REQUESTED, message)
    serving.store.ask_to_resume(campaign.id, event, event.at - STARTING)
    with _recording_failure(serving, campaign):
        serving.starter.start(campaign.id, override_pilot=override_pilot)
    return CampaignDocument.of(serving.store.campaign(campaign.id), serving.store)


def _refuse_testbeds(serving: Service, campaign: Campaign) -> None:
    """Raise ConflictError unless the operator allows the testbeds that are stored with a campaign.

    They may have been allowed when it was created, or it was created from the command line.
    """
    try:
        spec = CampaignSpec.from_json(campaign.spec)
    except SpecError:
        return  # the run cannot read it either, and records why
    sections = dict(spec.named_sections())
    # A testbed file is stored as its path, as it was written; no request can name one.
    files = {
        place.section: file
        for place in sections.values()
        for file in serving.settings.testbed_files()
        if isinstance(place.section, str) and Path(place.section).resolve() == file.resolve()
    }
    for where, place in sections.items():
        try:
            place.type.permit(place.section, where, serving.settings.allow, files)
        except SpecError as problem:
            raise ConflictError(
                f"{problem}; or resume it from the command line: fstune resume {campaign.id}"
            ) from problem


@contextmanager
def _recording_failure(serving: Service, campaign: Campaign) -> Iterator[None]:
    """Record why a run could not be started."""
    try:
        yield
    except Exception as problem:  # whatever the cause, the request is over
        event = NewEvent(datetime.now(UTC), EventKind.START_FAILED, reason_of(problem))
        serving.store.add_event(campaign.id, event)
        raise


def _refuse_stale(serving: Service, campaign: Campaign, if_match: str | None) -> None:
    """Reject a change if the campaign has changed since the client read it (If-Match)."""
    if if_match is None or if_match.strip() == "*":
        return
    now = etag(CampaignDocument.of(campaign, serving.store).model_dump_json().encode())
    if now not in (tag.strip() for tag in if_match.split(",")):
        raise RequestError(
            HTTPStatus.PRECONDITION_FAILED, "changed", "the campaign has changed; read it again"
        )


def _create(
    spec: CampaignSpec,
    reference: str | None,
    serving: Service,
    who: Visitor,
    root: str,
    answer: Response,
    key: str | None,
) -> tuple[Campaign, str]:
    """Create a campaign, with ``reference`` as a branch of that one. Returns it, and why no trial
    of that one guides its search, "" otherwise and when the request is repeated.
    """
    spec_allowed = allowed_spec(spec, serving)
    owner = "" if who.token is None else who.token.parent or who.token.id
    request, identifier = None, None
    if key is not None:
        # As the client wrote it: ``last`` may be another campaign when the request is repeated.
        body = f"{reference or ''}:{spec_allowed.to_json()}".encode()
        request = PostedRequest(f"{owner}:{key}", body)
        identifier = campaign_of_request(serving.store, request, datetime.now(UTC))
    if identifier is not None:
        campaign, unguided = serving.store.campaign(identifier), ""
    else:
        serving.starter.refuse_too_many()
        old = None if reference is None else serving.store.campaign(reference)
        check_measurements(spec_allowed)
        preparation = prepare(spec_allowed, serving.directory)
        serving.starter.refuse_used([each.name for each in preparation.identities])
        campaign, unguided = _store(serving, preparation, old, request)
    # Also for a repeated request: the first may have died before it started the campaign.
    with _recording_failure(serving, campaign):
        serving.starter.begin(campaign)
    answer.headers["Location"] = f"{root}/v1/campaigns/{campaign.id}"
    return campaign, unguided


def _store(
    serving: Service, preparation: Prepared, old: Campaign | None, request: PostedRequest | None
) -> tuple[Campaign, str]:
    spec = preparation.spec
    rules = rules_of(spec, preparation.workload)
    prior_results: list[Prior] = []
    unguided = ""
    if old is None:
        prior_results, _ = warm_start(
            serving.store, spec, rules, preparation.aspects, preparation.parameters
        )
    else:
        prior_results = priors(serving.store, old.id, rules, preparation.parameters)
        if not prior_results:
            unguided = no_priors(serving.store, old.id, rules)
    now = datetime.now(UTC)
    campaign = serving.store.create_campaign(
        spec.name, spec.to_json(), spec.seed, now, priors=prior_results, request=request
    )
    return campaign, unguided


def allowed_spec(spec: CampaignSpec, serving: Service) -> CampaignSpec:
    """Check that a requested specification uses only what the operator allows, and resolve it.

    Names are only compared with known names and never used as paths. Raises SpecError.
    """
    for part, section in spec.spaces.items():
        if section.name not in search_spaces.names():
            raise SpecError(f"spaces.{part}: there is no such packaged space; see /v1/spaces")
    if spec.workload.name not in workloads.packaged():
        raise SpecError("workload: there is no such packaged workload; see /v1/workloads")
    if spec.references:
        raise SpecError("references: paths are not accepted over HTTP; use 'fstune run'")
    return spec.at(
        [_allowed_section(where, place, serving) for where, place in spec.named_sections()]
    )


def _allowed_section(where: str, testbed: TestbedSection, serving: Service) -> TestbedSection:
    settings = serving.settings
    files = {file.stem: file for file in settings.testbed_files()}
    return testbed.of(testbed.type.permit(testbed.section, where, settings.allow, files))
