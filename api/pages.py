"""Web pages, rendered on the server. A small script keeps them up to date; they work without it."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import Annotated, Any
from urllib.parse import parse_qs, quote

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

from api import view
from api.authorisation import (
    OPERATE,
    READ,
    Operator,
    Reader,
    Visitor,
    require_own_page,
    visitor,
)
from api.campaigns import older_than, recommendation_of
from api.comparison import compare_trials
from api.cookies import COOKIE, cookie_name
from api.documents import CampaignDocument
from api.paging import PageToken, page, read_token
from api.problems import Problem
from api.root import Root, inner_path, root_of
from api.service import NamedPathCampaign, PathCampaign, Service, Serving
from api.steering import resume, send_wish
from tuner.errors import NotFoundError
from tuner.model import Answer, Campaign, Wish
from tuner.page.document import compared as comparison_tables
from tuner.page.rows import effects, settings
from tuner.records.none_ran import none_ran
from tuner.records.status import Status
from tuner.report.answer import arguments, headline
from tuner.report.applying import meanings, steps, without_effect
from tuner.report.summary import so_far_text
from tuner.results.expiry import caveat, expiries, with_expiry
from tuner.run.presence import absence, status
from tuner.spec.applicable import can_be_applied
from tuner.spec.space_section import stored_spaces
from tuner.states import IN_FORCE, CampaignState
from tuner.store.applications import Applications
from tuner.text import counted, duration, faster, moment, value_text
from tuner.tokens import Scope

router = APIRouter(include_in_schema=False)

_SESSION = timedelta(hours=12)
_CAMPAIGNS_SHOWN = 50
#: How long a page waits for a campaign to be read before it shows a placeholder.
_PATIENCE_S = 0.7
#: The live part of a campaign's page, and its placeholder.
_LIVE, _READING = "live.html", "reading.html"
_SEE_OTHER = 303
#: Not //host or /\\host, which browsers take for another site, nor .. (written in any way), which
#: leads out of the path below which the service is published.
_OWN_PATH = re.compile(r"(?i)/(?!/)(?!.*(?:\.|%2e){2})[^\\\x00-\x1f\x7f-\x9f]{0,2000}")
#: What precedes the name of a page or button of a campaign.
_OF_CAMPAIGN = re.compile(r"/(campaigns/[^/]+)/.")
#: What error pages are headed by.
_TITLES: dict[int, str] = {
    HTTPStatus.FORBIDDEN: "Not allowed",
    HTTPStatus.NOT_FOUND: "Not found",
    HTTPStatus.METHOD_NOT_ALLOWED: "Not possible here",
    HTTPStatus.CONFLICT: "Not possible now",
    HTTPStatus.UNPROCESSABLE_ENTITY: "Not understood",
    HTTPStatus.INTERNAL_SERVER_ERROR: "fstune has failed",
    HTTPStatus.SERVICE_UNAVAILABLE: "Not available now",
}
_FOR_PROGRAMS = ("/v1/", "/healthz", "/readyz", "/metrics", "/static/", "/openapi.json")


def _answer(campaign: CampaignDocument) -> str:
    """The answer of a campaign, for its row of the list."""
    if campaign.none_ran:
        return "none could be run"
    if campaign.answer != Answer.RECOMMENDED or campaign.ratio is None:
        return (campaign.answer or "").replace("_", " ")
    return faster(campaign.ratio)


_templates = Environment(
    loader=ChoiceLoader([PackageLoader("api"), PackageLoader("tuner.page")]),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_templates.filters.update(
    answer=_answer,
    arguments=arguments,
    counted=counted,
    duration=duration,
    faster=faster,
    moment=moment,
    value=value_text,
)


def render(
    root: str, name: str, who: Visitor | None, status: int = 200, **what: Any
) -> HTMLResponse:
    """Render a page from a template. All values are escaped. ``root``: begins all its links."""
    context = {
        "root": root,
        "session": who is not None and who.token is not None,
        "may_steer": who is not None and who.scope.allows(Scope.OPERATE),
    }
    text = _templates.get_template(name).render(context | what)
    return HTMLResponse(text, status_code=status)


@router.get("/")
def index(serving: Serving, who: Reader, root: Root, token: PageToken = None) -> HTMLResponse:
    """The list of campaigns."""
    return render(root, "index.html", who, **_index_context(serving, token))


@router.get("/campaigns", dependencies=[READ])
def index_live(serving: Serving, who: Reader, root: Root, token: PageToken = None) -> HTMLResponse:
    """The live part of the list."""
    return render(root, "list.html", who, **_index_context(serving, token))


def _index_context(serving: Serving, token: str | None) -> dict[str, Any]:
    key = read_token(token, str, str)
    campaigns = serving.pages.campaigns(_CAMPAIGNS_SHOWN + 1, older_than(key))
    reasons = expiries(serving.store, campaigns)
    items = page(
        campaigns,
        _CAMPAIGNS_SHOWN,
        lambda c: (c.created.isoformat(), c.id),
        lambda c: CampaignDocument.with_reason(c, reasons.get(c.id, "")),
    )
    run = [c.id for c in items.items if c.state is CampaignState.RUNNING]
    now = status(serving.store) if run else Status()
    absent = {name: missing.reason for name in run if (missing := now.absence(name)) is not None}
    return {"campaigns": items.items, "absent": absent, "next": items.next, "here": token or ""}


@router.get("/campaigns/{campaign}", dependencies=[READ])
def campaign_page(
    campaign: PathCampaign, serving: Serving, who: Reader, root: Root
) -> HTMLResponse:
    """The page of a campaign."""
    context = _campaign_context(serving, campaign)
    newest = context["view"].newest if context else serving.pages.newest_event(campaign.id)
    part = _LIVE if context else _READING
    what = {"campaign": campaign, "newest": newest, "part": part, **context}
    return render(root, "campaign.html", who, **what)


@router.get("/campaigns/{campaign}/live", dependencies=[READ])
def campaign_live(
    campaign: PathCampaign, serving: Serving, who: Reader, root: Root
) -> HTMLResponse:
    """The live part of a campaign's page."""
    if context := _campaign_context(serving, campaign):
        return render(root, _LIVE, who, **context)
    return render(root, _READING, who, campaign=campaign)


def _campaign_context(serving: Service, campaign: Campaign) -> dict[str, Any]:
    """Template context for a campaign; empty while the campaign is still being read."""
    running = campaign.state is CampaignState.RUNNING
    snapshot = serving.snapshots.soon(campaign.id, _PATIENCE_S)
    if snapshot is None:
        return {}
    comparison = serving.snapshots.comparison(campaign.id)
    latest = serving.effects.soon(snapshot)
    return {
        "view": view.of(
            snapshot,
            latest.effects,
            absence(serving.store, campaign.id) if running else None,
            comparison,
            caveat(serving.store, campaign),
            pending=latest.pending,
        ),
        "comparison": None if comparison is None else comparison_tables(comparison),
    }


@router.get("/campaigns/{campaign}/recommendation", dependencies=[READ])
def recommendation_page(
    campaign: PathCampaign, serving: Serving, who: Reader, root: Root
) -> HTMLResponse:
    """The page of a campaign's recommendation."""
    document = recommendation_of(serving, campaign)
    record = with_expiry(serving.store, campaign)
    answer = record.recommendation
    assert answer is not None
    spaces = stored_spaces(record.spec, files=serving.effects.files)
    return render(
        root,
        "recommendation.html",
        who,
        campaign=campaign,
        document=document,
        headline=headline(answer).plain if answer.verification or none_ran(answer) else "",
        expired=answer.expired,
        so_far=so_far_text(record),
        notes=answer.notes[bool(answer.expired) :],
        rows=settings(answer),
        meanings=meanings(answer, spaces, without_effect(answer, spaces)),
        steps={step.part: step for step in steps(answer, spaces)},
        can_be_applied=can_be_applied(record),
        applications=Applications(serving.store).of(campaign.id),
        in_force=IN_FORCE,
        effects=effects(answer.components),
        why=document.why,
    )


TrialNumber = Annotated[int, Query(ge=0, le=10**9)]


@router.get("/campaigns/{campaign}/compare", dependencies=[READ])
def compare_page(
    campaign: PathCampaign,
    serving: Serving,
    who: Reader,
    root: Root,
    a: TrialNumber = 0,
    b: TrialNumber | None = None,
) -> HTMLResponse:
    """The page that compares two trials."""
    snapshot = serving.snapshots.of(campaign.id)
    other = b if b is not None else snapshot.leader
    comparisons = compare_trials(snapshot, snapshot.scored, a, other)
    last = snapshot.trials[-1].number
    return render(
        root,
        "compare.html",
        who,
        campaign=snapshot.campaign,
        last=last,
        comparisons=comparisons,
        a=a,
        b=other,
    )


@router.post("/campaigns/{campaign}/cancel", dependencies=[OPERATE])
def cancel_campaign(
    campaign: NamedPathCampaign, serving: Serving, who: Operator, root: Root
) -> Response:
    """Handle the button that cancels a campaign; `last` is not accepted."""
    send_wish(serving, campaign, Wish.CANCEL, who)
    return RedirectResponse(f"{root}/campaigns/{campaign.id}", _SEE_OTHER)


@router.post("/campaigns/{campaign}/{wish}", dependencies=[OPERATE])
def steer_campaign(
    campaign: PathCampaign, wish: str, serving: Serving, who: Operator, root: Root
) -> Response:
    """Handle another button on a campaign's page."""
    if wish == "resume":
        resume(serving, campaign, who)
    elif wish == Wish.PAUSE:
        send_wish(serving, campaign, Wish.PAUSE, who)
    else:
        raise NotFoundError(f"there is no button {wish!r}")
    return RedirectResponse(f"{root}/campaigns/{campaign.id}", _SEE_OTHER)


@router.get("/login")
def login_page(request: Request, serving: Serving, root: Root) -> Response:
    """The page where a token is exchanged for a session."""
    place = own_path(request.query_params.get("next", ""))
    if visitor(request, serving) is not None:
        return RedirectResponse(root + place, _SEE_OTHER)
    return render(root, "login.html", None, refused=False, place=place)


def own_path(text: str) -> str:
    """A path from the root of this service, to continue at after the login; "/" for what may lead
    elsewhere.
    """
    return text if _OWN_PATH.fullmatch(text) else "/"


async def login_form(request: Request) -> dict[str, str]:
    """The fields of a submitted form, each without surrounding blanks."""
    try:
        fields = parse_qs((await request.body()).decode("utf-8", "replace"), max_num_fields=5)
    except ValueError:
        return {}
    return {name: values[0].strip() for name, values in fields.items()}


@router.post("/login")
def login(
    request: Request,
    serving: Serving,
    root: Root,
    form: Annotated[dict[str, str], Depends(login_form)],
) -> Response:
    """Start a session with a valid token."""
    require_own_page(request)
    now = datetime.now(UTC)
    place = own_path(form.get("next", ""))
    token = serving.access.token_of(form.get("token", ""), now)
    if token is None or token.parent is not None:
        return render(root, "login.html", None, 401, refused=True, place=place)
    until = now + _SESSION if token.expires is None else min(token.expires, now + _SESSION)
    serving.access.forget_sessions(now)
    _, session = serving.access.create(token.name, token.scope, now, until, token.id)
    answer = RedirectResponse(root + place, _SEE_OTHER)
    answer.set_cookie(
        cookie_name(request.url.scheme, root),
        session,
        max_age=math.ceil((until - now).total_seconds()),
        path=root or "/",
        httponly=True,
        # Also sent with links from other sites: a GET changes nothing, and changes need our Origin.
        samesite="lax",
        secure=request.url.scheme == "https",
    )
    return answer


@router.post("/logout")
def logout(request: Request, serving: Serving, who: Reader, root: Root) -> Response:
    """End a session."""
    if who.token is not None and who.token.parent is not None:
        serving.access.revoke(who.token.id, datetime.now(UTC))
    answer = RedirectResponse(f"{root}/login", _SEE_OTHER)
    answer.delete_cookie(
        cookie_name(request.url.scheme, root),
        path=root or "/",
        httponly=True,
        samesite="lax",
        secure=request.url.scheme == "https",
    )
    return answer


def wants_page(request: Request) -> bool:
    """Whether a browser requests a page, rather than an endpoint meant for programs."""
    takes_html = "text/html" in request.headers.get("accept", "")
    return takes_html and not inner_path(request).startswith(_FOR_PROGRAMS)


def _login_address(method: str, place: str) -> str:
    if method != "GET" or place == "/" or own_path(place) != place:
        return "/login"
    return f"/login?next={quote(place, safe='/')}"


def problem_page(request: Request, problem: Problem) -> Response | None:
    """The error page for a problem; None if the client is a program."""
    if not wants_page(request):
        return None
    root = root_of(request)
    if problem.status == HTTPStatus.UNAUTHORIZED:
        place = inner_path(request) + (f"?{query}" if (query := request.url.query) else "")
        return RedirectResponse(root + _login_address(request.method, place), _SEE_OTHER)
    # Not asked whose session it is: the database may be what fails.
    return render(
        root,
        "error.html",
        None,
        problem.status,
        problem=problem,
        title=_TITLES.get(problem.status, problem.title),
        back=_campaign_address(request),
        session=COOKIE in request.cookies,
    )


def _campaign_address(request: Request) -> str:
    """The page of the campaign to which a requested page or button belongs, without the root of the
    service; "" for none.
    """
    match = _OF_CAMPAIGN.match(inner_path(request))
    return "" if match is None else quote(match[1])
