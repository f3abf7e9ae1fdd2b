"""Tokens, idempotency keys and pages, in each kind of database."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from tuner.errors import ConflictError, NotFoundError
from tuner.store import NewEvent, Store
from tuner.store.access import MOST_SESSIONS, Access
from tuner.store.pages import Pages
from tuner.store.posted_requests import PostedRequest
from tuner.tokens import Scope

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def test_a_token_is_valid_until_it_is_revoked(store: Store) -> None:
    access = Access(store)
    before = {token.id for token in access.tokens()}
    token, text = access.create("one", Scope.OPERATE, NOW, NOW + timedelta(days=1))
    session, cookie = access.create("one", Scope.OPERATE, NOW, NOW + timedelta(1), token.id)
    assert access.token_of(text, NOW) == token
    assert access.token_of(cookie, NOW) == session
    assert {each.id for each in access.tokens()} - before == {token.id}
    access.forget_sessions(NOW + timedelta(days=2))
    assert access.token_of(cookie, NOW) is None
    access.revoke(token.id, NOW)
    assert access.token_of(text, NOW) is None
    with pytest.raises(NotFoundError):
        access.revoke("nosuch", NOW)


def test_the_oldest_sessions_of_a_token_end_when_it_has_too_many(store: Store) -> None:
    access, until = Access(store), NOW + timedelta(1)
    token, text = access.create("one", Scope.READ, NOW, None)
    other, _ = access.create("two", Scope.READ, NOW, None)
    _, of_other = access.create("two", Scope.READ, NOW - timedelta(1), until, other.id)
    cookies = [
        access.create("one", Scope.READ, NOW + timedelta(seconds=second), until, token.id)[1]
        for second in range(MOST_SESSIONS + 2)
    ]
    later = NOW + timedelta(hours=1)
    valid = [access.token_of(cookie, later) is not None for cookie in cookies]
    assert valid == [False, False] + [True] * MOST_SESSIONS
    assert access.token_of(text, later) == token
    assert access.token_of(of_other, later) is not None


def test_a_key_stands_for_one_request(store: Store) -> None:
    request = PostedRequest(f"key {NOW} {id(store)}", b"body")

    def make(of: PostedRequest, at: datetime = NOW) -> str:
        return store.create_campaign("one", "{}", 1, at, request=of).id

    first = make(request)
    assert make(request) == first
    with pytest.raises(ConflictError, match="another request"):
        make(PostedRequest(request.key, b"other"))
    later = make(PostedRequest(request.key, b"other"), NOW + timedelta(days=2))
    assert later != first
    assert len(store.events(first)) == 1


def test_a_request_that_arrives_twice_at_once_creates_one_campaign(store: Store) -> None:
    request = PostedRequest(f"twice {id(store)}", b"body")
    with ThreadPoolExecutor(8) as pool:
        campaigns = list(
            pool.map(
                lambda _: store.create_campaign("one", "{}", 1, NOW, request=request).id, range(8)
            )
        )
    assert len(set(campaigns)) == 1


def test_a_token_is_checked_again(store: Store) -> None:
    access = Access(store)
    token, _ = access.create("one", Scope.READ, NOW, None)
    session, _ = access.create("one", Scope.READ, NOW, NOW + timedelta(1), token.id)
    assert access.holds(token, NOW)
    assert access.holds(session, NOW)
    assert not access.holds(session, NOW + timedelta(2))
    access.revoke(token.id, NOW)
    assert not access.holds(token, NOW)
    assert not access.holds(session, NOW)


def test_campaigns_are_ordered_by_age_then_by_name(store: Store) -> None:
    pages = Pages(store)
    campaigns = [
        store.create_campaign(str(n), "{}", 1, NOW + timedelta(seconds=n // 2)) for n in range(5)
    ]
    expected = [c.id for c in sorted(campaigns, key=lambda c: (c.created, c.id), reverse=True)]
    names: list[str] = []
    before = None
    while page := pages.campaigns(2, before):
        names += [campaign.id for campaign in page]
        before = page[-1].created, page[-1].id
    assert names == expected
    assert pages.counts() == {"created": 5}
    assert pages.with_answer(10) == []


def test_the_newest_event_and_identity_of_campaigns(store: Store) -> None:
    pages = Pages(store)
    one, other = (store.create_campaign(n, "{}", 1, NOW).id for n in ("one", "other"))
    for identity in ("first", "second"):
        event = NewEvent(NOW, "testbed-ready", "ready", {"identity": identity})
        store.add_event(one, event)
    assert (pages.newest_event(one), pages.newest_event(other), pages.newest_event("x")) == (
        3,
        1,
        0,
    )
    findings = pages.testbed_findings([one, other])
    assert findings == {one: {"identity": "second", "facts": "", "hosts": ""}}
    assert not pages.has_references(one)
