"""Every route of the service, the scope it requires, and the response to each kind of visitor."""

from __future__ import annotations

from pathlib import Path

import pytest
from fastapi.routing import iter_route_contexts
from starlette.routing import Mount

from api.app import create_app
from tests.unit.api.conftest import Guarded
from tests.unit.api.test_conventions import is_problem
from tuner.tokens import Scope

#: The scope that a visitor needs, or None.
ANYBODY = None
READ, OPERATE, ADMIN = Scope

#: All routes. A test fails if a route is missing here, or listed but does not exist.
NEEDS: dict[tuple[str, str], Scope | None] = {
    ("GET", "/healthz"): ANYBODY,
    ("GET", "/readyz"): ANYBODY,
    ("GET", "/openapi.json"): ANYBODY,
    ("ANY", "/static"): ANYBODY,
    ("GET", "/login"): ANYBODY,
    ("POST", "/login"): ANYBODY,
    ("GET", "/metrics"): READ,
    ("GET", "/v1/campaigns"): READ,
    ("GET", "/v1/campaigns/{campaign}"): READ,
    ("GET", "/v1/campaigns/{campaign}/trials"): READ,
    ("GET", "/v1/campaigns/{campaign}/blocks"): READ,
    ("GET", "/v1/campaigns/{campaign}/measurements"): READ,
    ("GET", "/v1/campaigns/{campaign}/verdicts"): READ,
    ("GET", "/v1/campaigns/{campaign}/drift"): READ,
    ("GET", "/v1/campaigns/{campaign}/effects"): READ,
    ("GET", "/v1/campaigns/{campaign}/recommendation"): READ,
    ("GET", "/v1/campaigns/{campaign}/report"): READ,
    ("GET", "/v1/campaigns/{campaign}/why"): READ,
    ("GET", "/v1/campaigns/{campaign}/noise"): READ,
    ("GET", "/v1/campaigns/{campaign}/comparison"): READ,
    ("GET", "/v1/campaigns/{campaign}/events"): READ,
    ("GET", "/v1/campaigns/{campaign}/events/stream"): READ,
    ("GET", "/v1/campaigns/{campaign}/export"): READ,
    ("GET", "/v1/campaigns/{campaign}/applications"): READ,
    ("POST", "/v1/campaigns/{campaign}/plans"): ADMIN,
    ("POST", "/v1/campaigns/{campaign}/plans/{plan}/apply"): ADMIN,
    ("POST", "/v1/campaigns/{campaign}/rollback"): ADMIN,
    ("GET", "/v1/campaigns/{campaign}/verifications"): READ,
    ("POST", "/v1/campaigns/{campaign}/verifications"): ADMIN,
    ("GET", "/v1/applications"): READ,
    ("GET", "/v1/status"): READ,
    ("GET", "/v1/recommendations"): READ,
    ("GET", "/v1/spaces"): READ,
    ("GET", "/v1/spaces/{name}"): READ,
    ("GET", "/v1/workloads"): READ,
    ("GET", "/v1/workloads/{name}"): READ,
    ("GET", "/v1/testbeds"): READ,
    ("POST", "/v1/campaigns"): OPERATE,
    ("POST", "/v1/campaigns/{campaign}/branch"): OPERATE,
    ("POST", "/v1/campaigns/{campaign}/pause"): OPERATE,
    ("POST", "/v1/campaigns/{campaign}/resume"): OPERATE,
    ("POST", "/v1/campaigns/{campaign}/cancel"): OPERATE,
    ("GET", "/"): READ,
    ("GET", "/campaigns"): READ,
    ("GET", "/campaigns/{campaign}"): READ,
    ("GET", "/campaigns/{campaign}/live"): READ,
    ("GET", "/campaigns/{campaign}/recommendation"): READ,
    ("GET", "/campaigns/{campaign}/compare"): READ,
    ("POST", "/campaigns/{campaign}/cancel"): OPERATE,
    ("POST", "/campaigns/{campaign}/{wish}"): OPERATE,
    ("POST", "/logout"): READ,
}
VISITORS: tuple[Scope | None, ...] = (None, *Scope)
#: Statuses of permitted requests, although the named campaign does not exist.
REFUSED_LATER = (200, 303, 404, 422)


def address(path: str) -> str:
    return {"/static": "/static/fstune.css"}.get(path, path).format(
        campaign="nosuch", name="nosuch", wish="pause", plan="0" * 32
    )


def test_every_route_is_in_the_table(tmp_path: Path) -> None:
    routes = {
        ("ANY", context.path) if isinstance(context.route, Mount) else (method, str(context.path))
        for context in iter_route_contexts(create_app(tmp_path).routes)
        for method in (context.methods or {"ANY"}) - {"HEAD"}
    }
    assert routes == NEEDS.keys()


def test_every_changing_route_requires_a_changing_scope(tmp_path: Path) -> None:
    changing = {route for route in NEEDS if route[0] not in ("GET", "ANY")}
    sessions = {("POST", "/login"), ("POST", "/logout")}
    assert {
        route for route, need in NEEDS.items() if need in (OPERATE, ADMIN)
    } == changing - sessions


def expected(route: tuple[str, str], visitor: Scope | None) -> set[int]:
    """The statuses allowed by the table."""
    need = NEEDS[route]
    if route == ("POST", "/login"):
        return {401}  # a form without a token in it
    if need is ANYBODY:
        return {200, 303}
    if visitor is None:
        return {401}
    return set(REFUSED_LATER) if visitor.allows(need) else {403}


@pytest.mark.slow
def test_each_visitor_is_answered_according_to_the_table(guarded: Guarded) -> None:
    wrong = []
    for method, path in NEEDS:
        for visitor in VISITORS:
            headers = {"Origin": "http://service"}
            headers |= {} if visitor is None else guarded.headers(visitor)
            answer = guarded.client.request(
                "GET" if method == "ANY" else method,
                address(path),
                headers=headers,
                follow_redirects=False,
            )
            if answer.status_code not in expected((method, path), visitor):
                wrong.append((method, path, visitor, answer.status_code, answer.text))
            elif answer.status_code >= 400 and path != "/login":
                assert is_problem(answer, answer.status_code)
    assert wrong == []


@pytest.mark.slow
@pytest.mark.parametrize("header", ["Bearer fst_x_y", "Basic eDp5", "Bearer", "fst_x_y"])
def test_a_header_without_a_token_permits_nothing(guarded: Guarded, header: str) -> None:
    for (method, path), need in NEEDS.items():
        if need is not ANYBODY:
            answer = guarded.client.request(
                method, address(path), headers={"Authorization": header}
            )
            assert is_problem(answer, 401), path
