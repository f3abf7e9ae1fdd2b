"""The pages for people: rendered here, kept up to date by one small script, usable without it."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import Annotated, Any
from urllib.parse import parse_qs

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

from api import view
from api.campaigns import older_than, recommended
from api.comparison import compared
from api.documents import CampaignDocument
from api.paging import PageToken, page, read_token
from api.problems import Problem, RequestError
from api.service import (
    COOKIE,
    OPERATE,
    READ,
    Found,
    Operator,
    Reader,
    Service,
    Serving,
    Visitor,
    same_origin,
    visitor,
)
from api.steering import resumed, steered
from tuner.campaign.expiry import expired, with_expiry
from tuner.campaign.presence import absence, status
from tuner.campaign.stored_comparison import stored_comparison
from tuner.errors import NotFoundError
from tuner.model import Campaign, Wish
from tuner.page.document import compared as comparison_tables
from tuner.page.rows import effects, settings
from tuner.page.why import why
from tuner.records.status import Status
from tuner.states import CampaignState
from tuner.text import duration, moment, value_text
from tuner.tokens import Scope

router = APIRouter(include_in_schema=False)

_SESSION = timedelta(hours=12)
_CAMPAIGNS_SHOWN = 50
#: A page waits so long for a campaign that nobody has looked at yet; then it says that it is read.
_PATIENCE_S = 0.7
#: The part of a campaign's page that changes, and what stands there meanwhile.
_LIVE, _READING = "live.html", "reading.html"
_SEE_OTHER = 303
_FOR_PROGRAMS = ("/v1/", "/healthz", "/readyz", "/metrics", "/static/", "/openapi.json")

_templates = Environment(
    loader=ChoiceLoader([PackageLoader("api"), PackageLoader("tuner.page")]),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_templates.filters.update(duration=duration, moment=moment, value=value_text)


def rendered(name: str, who: Visitor | None, status: int = 200, **what: Any) -> HTMLResponse:
    """A page from a template. Everything that comes from outside is escaped."""
    text = _templates.get_template(name).render(
        who=who,
        may_steer=who is not None and who.scope.allows(Scope.OPERATE),
        **what,
    )
    return HTMLResponse(text, status_code=status)


@router.get("/")
def index(serving: Serving, who: Reader, token: PageToken = None) -> HTMLResponse:
    """The list of campaigns."""
    return rendered("index.html", who, **_listed(serving, token))


@router.get("/campaigns", dependencies=[READ])
def listed(serving: Serving, who: Reader, token: PageToken = None) -> HTMLResponse:
    """The part of the list that changes."""
    return rendered("list.html", who, **_listed(serving, token))


def _listed(serving: Serving, token: str | None) -> dict[str, Any]:
    key = read_token(token, str, str)
    found = serving.pages.campaigns(_CAMPAIGNS_SHOWN + 1, older_than(key))
    shown = page(
        found,
        _CAMPAIGNS_SHOWN,
        lambda c: (c.created.isoformat(), c.id),
        lambda c: CampaignDocument.of(c, serving.store),
    )
    run = [c.id for c in shown.items if c.state is CampaignState.RUNNING]
    now = status(serving.store) if run else Status()
    absent = {name: told.said for name in run if (told := now.absence(name)) is not None}
    return {"campaigns": shown.items, "absent": absent, "next": shown.next, "here": token or ""}


@router.get("/campaigns/{campaign}", dependencies=[READ])
def campaign_page(campaign: Found, serving: Serving, who: Reader) -> HTMLResponse:
    """One campaign."""
    shown = _shown(serving, campaign)
    newest = shown["view"].newest if shown else serving.pages.newest_event(campaign.id)
    part = _LIVE if shown else _READING
    what = {"campaign": campaign, "newest": newest, "part": part, **shown}
    return rendered("campaign.html", who, **what)


@router.get("/campaigns/{campaign}/live", dependencies=[READ])
def campaign_live(campaign: Found, serving: Serving, who: Reader) -> HTMLResponse:
    """The part of a campaign's page that changes."""
    if shown := _shown(serving, campaign):
        return rendered(_LIVE, who, **shown)
    return rendered(_READING, who, campaign=campaign)


def _shown(serving: Service, campaign: Campaign) -> dict[str, Any]:
    """What is told of a campaign, and of what it compares; nothing while it is still read."""
    running = campaign.state is CampaignState.RUNNING
    seen = serving.sight.soon(campaign.id, _PATIENCE_S)
    if seen is None:
        return {}
    given = stored_comparison(serving.store, campaign, seen.trials)
    latest = serving.effects.soon(seen)
    return {
        "view": view.of(
            seen,
            latest.effects,
            absence(serving.store, campaign.id) if running else None,
            given,
            expired(serving.store, campaign),
            pending=latest.pending,
        ),
        "given": None if given is None else comparison_tables(given),
    }


@router.get("/campaigns/{campaign}/recommendation", dependencies=[READ])
def recommendation_page(campaign: Found, serving: Serving, who: Reader) -> HTMLResponse:
    """What a campaign recommends."""
    document = recommended(serving, campaign)
    answer = with_expiry(serving.store, campaign).recommendation
    assert answer is not None
    return rendered(
        "recommendation.html",
        who,
        campaign=campaign,
        document=document,
        expired=answer.expired,
        notes=answer.notes[bool(answer.expired) :],
        rows=settings(answer.baseline, answer.configuration),
        effects=effects(answer.components),
        why=why(serving.store, campaign.id, answer.trial),
    )


TrialNumber = Annotated[int, Query(ge=0, le=10**9)]


@router.get("/campaigns/{campaign}/compare", dependencies=[READ])
def compare_page(
    campaign: Found, serving: Serving, who: Reader, a: TrialNumber = 0, b: TrialNumber | None = None
) -> HTMLResponse:
    """Two trials beside each other."""
    seen = serving.sight.of(campaign.id)
    other = b if b is not None else seen.leader
    found = compared(seen, seen.scored, a, other)
    last = seen.trials[-1].number
    return rendered(
        "compare.html", who, campaign=seen.campaign, last=last, found=found, a=a, b=other
    )


@router.post("/campaigns/{campaign}/{wish}", dependencies=[OPERATE])
def steer_campaign(campaign: Found, wish: str, serving: Serving, who: Operator) -> Response:
    """A button of a campaign's page."""
    if wish == "resume":
        resumed(serving, campaign, who)
    elif wish in (Wish.PAUSE, Wish.CANCEL):
        steered(serving, campaign, Wish(wish), who)
    else:
        raise NotFoundError(f"there is no button {wish!r}")
    return RedirectResponse(f"/campaigns/{campaign.id}", _SEE_OTHER)


@router.get("/login")
def login_page(request: Request, serving: Serving) -> Response:
    """Where a token is shown once, to get a session."""
    if visitor(request, serving) is not None:
        return RedirectResponse("/", _SEE_OTHER)
    return rendered("login.html", None, refused=False)


async def shown_token(request: Request) -> str:
    """The token in a form, "" without one."""
    try:
        fields = parse_qs((await request.body()).decode("utf-8", "replace"), max_num_fields=5)
    except ValueError:
        return ""
    return fields.get("token", [""])[0].strip()


@router.post("/login")
def login(
    request: Request, serving: Serving, text: Annotated[str, Depends(shown_token)]
) -> Response:
    """Begin a session with a token that holds."""
    if not same_origin(request):
        raise RequestError(
            HTTPStatus.FORBIDDEN, "other-origin", "log in from the service's own page"
        )
    now = datetime.now(UTC)
    token = serving.access.token_of(text, now)
    if token is None or token.parent is not None:
        return rendered("login.html", None, 401, refused=True)
    until = now + _SESSION if token.expires is None else min(token.expires, now + _SESSION)
    serving.access.forget_sessions(now)
    _, session = serving.access.create(token.name, token.scope, now, until, token.id)
    answer = RedirectResponse("/", _SEE_OTHER)
    answer.set_cookie(
        COOKIE,
        session,
        max_age=math.ceil((until - now).total_seconds()),
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )
    return answer


@router.post("/logout")
def logout(serving: Serving, who: Reader) -> Response:
    """End a session."""
    if who.token is not None and who.token.parent is not None:
        serving.access.revoke(who.token.id, datetime.now(UTC))
    answer = RedirectResponse("/login", _SEE_OTHER)
    answer.delete_cookie(COOKIE, httponly=True, samesite="strict")
    return answer


def wants_page(request: Request) -> bool:
    """Whether it is a person's browser that asks, and not for what programs take."""
    asked = "text/html" in request.headers.get("accept", "")
    return asked and not request.url.path.startswith(_FOR_PROGRAMS)


def problem_page(request: Request, problem: Problem) -> Response | None:
    """A problem as a person reads it; None where a program asks."""
    if not wants_page(request):
        return None
    if problem.status == HTTPStatus.UNAUTHORIZED:
        return RedirectResponse("/login", _SEE_OTHER)
    return rendered("error.html", None, problem.status, problem=problem)
