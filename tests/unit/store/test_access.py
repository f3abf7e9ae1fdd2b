"""Tokens, keys of requests, and pages, in each kind of database."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tuner.errors import ConflictError, NotFoundError
from tuner.store import NewEvent, Store
from tuner.store.access import Access
from tuner.store.pages import Pages
from tuner.tokens import Scope

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def test_a_token_is_known_until_it_is_revoked(store: Store) -> None:
    access = Access(store)
    before = {token.id for token in access.tokens()}
    token, text = access.create("one", Scope.OPERATE, NOW, NOW + timedelta(days=1))
    session, cookie = access.create("one", Scope.OPERATE, NOW, NOW + timedelta(1), token.id)
    assert access.known(text, NOW) == token
    assert access.known(cookie, NOW) == session
    assert {known.id for known in access.tokens()} - before == {token.id}
    access.forget_sessions(NOW + timedelta(days=2))
    assert access.known(cookie, NOW) is None
    access.revoke(token.id, NOW)
    assert access.known(text, NOW) is None
    with pytest.raises(NotFoundError):
        access.revoke("nosuch", NOW)


def test_a_key_stands_for_one_request(store: Store) -> None:
    access = Access(store)
    campaign = store.create_campaign("one", "{}", 1, NOW).id
    key = f"key of {campaign}"
    assert access.reserve(key, b"body", NOW) is None
    with pytest.raises(ConflictError, match="under way"):
        access.reserve(key, b"body", NOW)
    access.settle(key, campaign)
    assert access.reserve(key, b"body", NOW) == campaign
    with pytest.raises(ConflictError, match="another request"):
        access.reserve(key, b"other", NOW)
    assert access.reserve(key, b"other", NOW + timedelta(days=2)) is None
    access.settle(key, None)
    assert access.reserve(key, b"third", NOW + timedelta(days=2)) is None
    access.settle(key, None)


def test_campaigns_come_by_age_then_by_name(store: Store) -> None:
    pages = Pages(store)
    made = [
        store.create_campaign(str(n), "{}", 1, NOW + timedelta(seconds=n // 2)) for n in range(5)
    ]
    wanted = [c.id for c in sorted(made, key=lambda c: (c.created, c.id), reverse=True)]
    found: list[str] = []
    before = None
    while page := pages.campaigns(2, before):
        found += [campaign.id for campaign in page]
        before = page[-1].created, page[-1].id
    assert found == wanted
    assert pages.counts() == {"created": 5}
    assert pages.answered(10) == []


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
    assert pages.identities([one, other]) == {one: "second"}
    assert not pages.has_references(one)
