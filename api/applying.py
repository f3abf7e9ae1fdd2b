"""Routes that apply a campaign's recommendation in two steps, and roll it back.

The first step inspects the testbed and makes a plan, identified by a hash of the settings in effect
and of the target settings. The second applies exactly that plan, in a separate process.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Path, Response
from pydantic import BaseModel, ConfigDict

from api import problems
from api.application_documents import ApplicationDocument, PlanDocument
from api.authorisation import ADMIN, READ, Admin, Visitor
from api.query import STRICT
from api.root import Root
from api.service import PathCampaign, Service, Serving
from tuner.applications import Application
from tuner.apply.actor import Actor
from tuner.apply.applying import look_again, make_plan
from tuner.apply.destination import Destination
from tuner.apply.rollback_checks import changed_since, check_replaced
from tuner.errors import NotFoundError
from tuner.states import ApplicationState
from tuner.store import NewEvent
from tuner.store.applications import Applications

_log = logging.getLogger(__name__)
_CHANGING = problems.responses(404, 409, 502)

router = APIRouter(
    prefix="/v1/campaigns",
    tags=["applications"],
    dependencies=[STRICT],
    responses=problems.responses(404),
)
every = APIRouter(
    prefix="/v1/applications",
    tags=["applications"],
    dependencies=[STRICT],
    responses=problems.responses(),
)

PlanIdentity = Annotated[str, Path(pattern="^[0-9a-f]{32}$", description="The identity of a plan.")]


class PlanRequest(BaseModel):
    """How to apply a configuration. ``step``: change one setting at a time."""

    model_config = ConfigDict(extra="forbid")

    step: bool = False


@router.get("/{campaign}/applications", operation_id="list_applications", dependencies=[READ])
def list_applications(campaign: PathCampaign, serving: Serving) -> list[ApplicationDocument]:
    """List this campaign's applications (planned, applied or rolled back), newest first."""
    return [ApplicationDocument.of(one) for one in Applications(serving.store).of(campaign.id)]


@every.get("", operation_id="list_all_applications", dependencies=[READ])
def list_all_applications(serving: Serving, *, in_force: bool = False) -> list[ApplicationDocument]:
    """List the applications (planned, applied or rolled back) of all campaigns, newest first.

    `in_force`: list only those that are or may be in effect, most recently applied first.
    """
    applications = Applications(serving.store)
    rows = applications.in_force() if in_force else applications.all()
    return [ApplicationDocument.of(one) for one in rows]


@router.post(
    "/{campaign}/plans",
    operation_id="plan_application",
    dependencies=[ADMIN],
    status_code=HTTPStatus.CREATED,
    responses=_CHANGING
    | {200: {"model": PlanDocument, "description": "Nothing to change: nothing to apply."}},
)
def plan_application(
    campaign: PathCampaign,
    request: PlanRequest,
    serving: Serving,
    who: Admin,
    root: Root,
    answer: Response,
) -> PlanDocument:
    """Read the settings in effect on the testbed, and plan the change to the recommended ones.

    No setting is changed. Use the plan's `identity` to apply it. If the recommended configuration
    is already in effect, the answer is 200 with a plan that changes nothing and cannot be applied.
    """
    actor = _actor(serving, who)
    plan, application = make_plan(
        actor,
        campaign,
        Destination.of(campaign, serving.directory),
        stepwise=request.step,
        only_look=True,
    )
    if application is None:
        answer.status_code = HTTPStatus.OK
    else:
        answer.headers["Location"] = f"{root}/v1/campaigns/{campaign.id}/applications"
    return PlanDocument.of(plan, application)


@router.post(
    "/{campaign}/plans/{plan}/apply",
    operation_id="apply_plan",
    dependencies=[ADMIN],
    status_code=HTTPStatus.ACCEPTED,
    responses=_CHANGING,
)
def apply_plan(
    campaign: PathCampaign, plan: PlanIdentity, serving: Serving, who: Admin
) -> ApplicationDocument:
    """Apply a plan. A stale plan is rejected (`urn:fstune:stale-plan`): make a new one.

    A plan is stale when the settings in effect are no longer those it was made from.
    """
    applications = Applications(serving.store)
    matches = [
        one
        for one in applications.of(campaign.id)
        if one.plan == plan and one.state is ApplicationState.PLANNED
    ]
    if not matches:
        raise NotFoundError(f"campaign {campaign.id} has no plan {plan} that can be applied")
    look_again(_actor(serving, who), matches[0])
    return _request_and_start(serving, who, matches[0], "apply")


@router.post(
    "/{campaign}/rollback",
    operation_id="roll_back_application",
    dependencies=[ADMIN],
    status_code=HTTPStatus.ACCEPTED,
    responses=_CHANGING,
)
def roll_back_application(
    campaign: PathCampaign, serving: Serving, who: Admin
) -> ApplicationDocument:
    """Restore the settings in effect before this campaign's recommendation was applied.

    It is rejected if it would replace what somebody has changed since.
    """
    applications = Applications(serving.store).in_force(campaign=campaign.id)
    if not applications:
        raise NotFoundError(f"nothing of campaign {campaign.id} is in force")
    newest = applications[0]
    serving.starter.refuse_queue("rollback", newest.id)
    check_replaced(newest, changed_since(_actor(serving, who), newest))
    return _request_and_start(serving, who, newest, "rollback")


def _actor(serving: Service, who: Visitor) -> Actor:
    return Actor(serving.store, serving.directory, who.name, _log.info)


def _request_and_start(
    serving: Service, who: Visitor, application: Application, command: str
) -> ApplicationDocument:
    """Record the request and start the command. Returns the updated application."""
    now = datetime.now(UTC)
    message = f"{who.name} asked to {command} {application.id}"
    event = NewEvent(now, f"{command}-requested", message, {"application": application.id})
    applications = Applications(serving.store)
    requested = applications.ask(application.id, application.state, who.name, event)
    try:
        serving.starter.start_application(command, requested)
    except Exception:  # whatever the cause, allow it to be requested again
        applications.unask(application.id)
        raise
    return ApplicationDocument.of(requested)
