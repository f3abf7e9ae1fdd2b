"""Access control: tokens, sessions, origins, and where the service may listen."""

from __future__ import annotations

import errno
import os
import re
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from typer.testing import CliRunner

from api.app import create_app
from api.cookies import COOKIE
from tests.unit.api.conftest import Guarded, fstune
from tests.unit.api.test_authorisation import NEEDS, address
from tests.unit.api.test_conventions import is_problem
from tuner.cli.app import app as command_line
from tuner.settings import ServiceSettings
from tuner.store import Store
from tuner.store.access import Access
from tuner.tokens import Scope

NOW = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.mark.slow
def test_without_tokens_nothing_can_be_changed(tmp_path: Path) -> None:
    settings = ServiceSettings(allow=frozenset({"simulated"}))
    with TestClient(create_app(tmp_path, settings), base_url="http://localhost") as client:
        for (method, path), need in NEEDS.items():
            if need is Scope.OPERATE:
                assert is_problem(client.request(method, address(path)), 403)


def test_a_token_ends_when_it_expires_or_is_revoked(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        access = Access(store)
        token, text = access.create("one", Scope.READ, NOW, NOW + timedelta(hours=1))
        _, session = access.create("one", Scope.READ, NOW, NOW + timedelta(hours=9), token.id)
        _, other = access.create("other", Scope.READ, NOW, None)
        assert access.token_of(text, NOW) == token
        assert access.token_of(session, NOW) is not None
        late = NOW + timedelta(hours=1)
        assert access.token_of(text, late) is None
        assert access.token_of(session, late) is None
        assert access.token_of(other, NOW + timedelta(days=9999)) is not None
        access.revoke(token.id, NOW)
        assert access.token_of(text, NOW) is None
        assert access.token_of(session, NOW) is None
        assert access.token_of(other, NOW) is not None
        assert sorted(t.name for t in access.tokens()) == ["one", "other"]


@pytest.mark.parametrize("change", ["shorter", "longer", "other", "other token"])
def test_a_slightly_wrong_token_is_invalid(tmp_path: Path, change: str) -> None:
    with Store.open(tmp_path) as store:
        access = Access(store)
        _, text = access.create("one", Scope.READ, NOW, None)
        second, _ = access.create("two", Scope.READ, NOW, None)
        prefix, _, secret = text.split("_", 2)
        wrong = {
            "shorter": text[:-1],
            "longer": text + "x",
            "other": text[:-1] + ("a" if text[-1] != "a" else "b"),
            "other token": f"{prefix}_{second.id}_{secret}",
        }[change]
        assert access.token_of(text, NOW) is not None
        assert access.token_of(wrong, NOW) is None


def test_the_database_does_not_contain_the_secret_of_a_token(tmp_path: Path) -> None:
    text = fstune(tmp_path, "token", "create", "one").split()[0]
    secret = text.split("_", 2)[2]
    with closing(sqlite3.connect(tmp_path / "fstune.sqlite3")) as raw:
        dump = "\n".join(raw.iterdump())
    assert 'INSERT INTO "token"' in dump
    assert secret not in dump


def test_tokens_on_the_command_line(tmp_path: Path) -> None:
    fstune(tmp_path, "token", "create", "for the dashboard", "--expires", "1h")
    fstune(tmp_path, "token", "create", "for ever", "--scope", "operate", "--expires", "never")
    first, second = fstune(tmp_path, "token", "list").splitlines()[-2:]
    assert "for the dashboard" in first
    assert "valid" in first
    assert "operate" in second
    assert "never" in second
    fstune(tmp_path, "token", "revoke", first.split()[0])
    assert "revoked" in fstune(tmp_path, "token", "list").splitlines()[-2]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("create", "one", "--expires", "soon"), "--expires: write a duration"),
        (("create", "one", "--expires", "9999d"), "ten years"),
        (("create", "a/b"), "the name: use 1 to 80"),
        (("revoke", "nosuch"), "there is no token nosuch"),
    ],
)
def test_token_commands_report_errors(tmp_path: Path, arguments: tuple[str, ...], why: str) -> None:
    Store.open(tmp_path).close()
    done = CliRunner().invoke(command_line, ["token", *arguments, "--state-dir", str(tmp_path)])
    assert done.exit_code != 0
    assert why in str(done.exception)


PAGE = {"Accept": "text/html"}


def login(guarded: Guarded, token: str, origin: str = "http://service") -> Any:
    return guarded.client.post(
        "/login",
        content=f"token={token}",
        headers={"Origin": origin, **PAGE},
        follow_redirects=False,
    )


@pytest.mark.slow
def test_a_session_of_the_web_pages(guarded: Guarded) -> None:
    client = guarded.client
    redirect = client.get("/", headers=PAGE, follow_redirects=False)
    assert (redirect.status_code, redirect.headers["location"]) == (303, "/login")
    answer = login(guarded, guarded.tokens[Scope.READ])
    assert answer.status_code == 303
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie
    assert "Secure" not in cookie
    assert client.get("/", headers=PAGE).status_code == 200
    # The session is not the token itself, and cannot be used as one.
    session = client.cookies[COOKIE]
    assert session not in guarded.tokens.values()
    assert login(guarded, session).status_code == 401
    left = client.post("/logout", headers={"Origin": "http://service"}, follow_redirects=False)
    assert left.status_code == 303
    client.cookies.set(COOKIE, session)
    assert client.get("/", headers=PAGE, follow_redirects=False).status_code == 303


@pytest.mark.slow
@pytest.mark.parametrize("root", ["", "/fstune"])
def test_over_https_no_other_host_can_set_the_session(guarded: Guarded, root: str) -> None:
    """Unless it is below a path, to which a cookie with that prefix cannot be restricted."""
    app = create_app(guarded.directory, ServiceSettings(auth=True))
    name, other = f"__Host-{COOKIE}", COOKIE
    if root:
        name, other = other, name
    origin = "https://service"
    with TestClient(app, base_url=origin, root_path=root) as client:
        token = f"token={guarded.tokens[Scope.READ]}"
        headers = {"Origin": origin, **PAGE}
        answer = client.post("/login", content=token, headers=headers, follow_redirects=False)
        cookie, _, attributes = answer.headers["set-cookie"].partition(";")
        assert cookie.startswith(f"{name}=")
        session = cookie.removeprefix(f"{name}=")
        assert f"; Path={root or '/'};" in answer.headers["set-cookie"]
        assert "Secure" in attributes
        assert "Domain" not in attributes
        client.cookies.clear()
        for each, status in ((other, 303), (name, 200)):
            with_cookie = {"Cookie": f"{each}={session}", **headers}
            assert (
                client.get("/", headers=with_cookie, follow_redirects=False).status_code == status
            )
        left = client.post("/logout", headers=with_cookie, follow_redirects=False)
        assert left.headers["set-cookie"].startswith(f'{name}="";')
        # A browser would not take it otherwise.
        assert "Secure" in left.headers["set-cookie"]


def test_the_session_of_a_shorter_path_does_not_count(guarded: Guarded) -> None:
    client = guarded.client

    def new_session() -> str:
        login(guarded, guarded.tokens[Scope.READ])
        session = client.cookies[COOKIE]
        client.cookies.clear()
        return session

    def of(*sessions: str) -> dict[str, str]:
        cookies = "; ".join(f"{COOKIE}={session}" for session in sessions)
        return {"Cookie": f"theme=dark; {cookies}", "Origin": "http://service", **PAGE}

    ours, other = new_session(), new_session()
    # Browsers send the cookie of the longest path first.
    login_page = client.get(
        "/login", headers=of(ours, "of_another_service"), follow_redirects=False
    )
    assert (login_page.status_code, login_page.headers["location"]) == (303, "/")
    assert client.get("/v1/campaigns", headers=of(ours, "of_another_service")).status_code == 200
    client.post("/logout", headers=of(ours, other), follow_redirects=False)
    assert client.get("/v1/campaigns", headers=of(ours)).status_code == 401
    assert client.get("/v1/campaigns", headers=of(other)).status_code == 200


@pytest.mark.slow
def test_the_cookie_of_a_session_over_tls_is_never_sent_without_tls(guarded: Guarded) -> None:
    guarded.client.base_url = "https://service"
    answer = login(guarded, guarded.tokens[Scope.READ], "https://service")
    assert "Secure" in answer.headers["set-cookie"]
    # The name may be shared with what is served without TLS on other ports.
    assert "strict-transport-security" not in answer.headers


def test_a_link_to_a_page_leads_there_after_the_login(guarded: Guarded) -> None:
    client, token = guarded.client, guarded.tokens[Scope.READ]
    place = "/campaigns/nosuch/compare?a=0&b=2"
    answer = client.get(place, headers=PAGE, follow_redirects=False)
    where = answer.headers["location"]
    assert where == "/login?next=/campaigns/nosuch/compare%3Fa%3D0%26b%3D2"
    assert f'value="{place.replace("&", "&amp;")}"' in client.get(where, headers=PAGE).text
    form = {"next": place, "token": "wrong"}
    headers = {"Origin": "http://service", **PAGE}
    assert 'value="/campaigns/nosuch/' in client.post("/login", data=form, headers=headers).text
    form["token"] = token
    answer = client.post("/login", data=form, headers=headers, follow_redirects=False)
    assert answer.headers["location"] == place
    # A button cannot be the place: it is pressed again by hand.
    client.cookies.clear()
    answer = client.post("/campaigns/a/pause", headers=PAGE, follow_redirects=False)
    assert answer.headers["location"] == "/login"


@pytest.mark.parametrize(
    "place",
    ["//evil.example", "/\\evil.example", "http://evil.example", "/\t/evil.example", "evil", ""],
)
def test_a_login_never_leads_to_another_site(guarded: Guarded, place: str) -> None:
    form = {"next": place, "token": guarded.tokens[Scope.READ]}
    for _ in range(2):
        answer = guarded.client.post(
            "/login", data=form, headers={"Origin": "http://service"}, follow_redirects=False
        )
        assert answer.headers["location"] == "/"
    answer = guarded.client.get("/login", params={"next": place}, follow_redirects=False)
    assert answer.headers["location"] == "/"


def test_the_session_counts_behind_a_proxy_that_asks_for_a_password(guarded: Guarded) -> None:
    login(guarded, guarded.tokens[Scope.OPERATE])
    basic = {"Authorization": "Basic dXNlcjpwYXNz"}
    assert guarded.client.get("/", headers=PAGE | basic).status_code == 200
    # It is still a session: another site's page changes nothing with it.
    answer = guarded.client.post("/v1/campaigns/a/pause", headers=basic)
    assert is_problem(answer, 403)
    assert answer.json()["type"] == "urn:fstune:other-origin"
    guarded.client.cookies.clear()
    assert is_problem(guarded.client.get("/v1/campaigns", headers=basic), 401)


@pytest.mark.parametrize(
    ("method", "path", "status", "title", "back"),
    [
        ("GET", "/campaigns/nosuch", 404, "Not found", ""),
        ("GET", "/nosuch", 404, "Not found", ""),
        ("GET", "/campaigns/on a shelf/recommendation", 404, "Not found", "on%20a%20shelf"),
        ("GET", "/campaigns/a!/compare", 422, "Not understood", "a%21"),
        ("POST", "/campaigns/a/pause", 403, "Not allowed", "a"),
        ("POST", "/campaigns/a", 405, "Not possible here", ""),
    ],
)
def test_error_pages_say_what_is_wrong_and_lead_back(
    guarded: Guarded, method: str, path: str, status: int, title: str, back: str
) -> None:
    headers = {"Origin": "http://service", **PAGE}
    log_out = 'action="/logout"'
    login(guarded, guarded.tokens[Scope.READ])
    page = guarded.client.request(method, path, headers=headers)
    assert page.status_code == status
    assert f"<h1>{title}</h1>" in page.text
    assert log_out in page.text
    assert '<a href="/">All campaigns</a>' in page.text
    expected = [f"/campaigns/{back}"] if back else []
    assert re.findall('href="(/campaigns/[^"]*)"', page.text) == expected
    guarded.client.cookies.clear()
    assert log_out not in guarded.client.get("/nosuch", headers=headers).text


@pytest.mark.slow
def test_a_session_ends_with_its_token(guarded: Guarded) -> None:
    login(guarded, guarded.tokens[Scope.READ])
    assert guarded.client.get("/v1/campaigns").status_code == 200
    fstune(guarded.directory, "token", "revoke", guarded.tokens[Scope.READ].split("_")[1])
    assert guarded.client.get("/v1/campaigns").status_code == 401


@pytest.mark.slow
def test_an_invalid_token_starts_no_session(guarded: Guarded) -> None:
    answer = login(guarded, "fst_nosuch_secret")
    assert answer.status_code == 401
    assert "is not valid" in answer.text
    assert "fst_nosuch_secret" not in answer.text
    assert "set-cookie" not in answer.headers


@pytest.mark.slow
@pytest.mark.parametrize("origin", ["http://evil.example", "null", "", "https://service"])
def test_a_page_of_another_origin_changes_nothing(guarded: Guarded, origin: str) -> None:
    login(guarded, guarded.tokens[Scope.ADMIN])
    headers = {"Origin": origin} if origin else {}
    for path in ("/v1/campaigns/last/cancel", "/campaigns/last/cancel", "/logout"):
        answer = guarded.client.post(path, headers=headers)
        assert is_problem(answer, 403)
        assert answer.json()["type"] == "urn:fstune:other-origin"
    # A request with a token in a header does not come from a page.
    guarded.client.cookies.clear()
    answer = guarded.client.post(
        "/v1/campaigns/last/cancel", headers=headers | guarded.headers(Scope.ADMIN)
    )
    assert is_problem(answer, 404)


def test_a_page_of_another_origin_cannot_log_a_visitor_in(guarded: Guarded) -> None:
    answer = login(guarded, guarded.tokens[Scope.READ], "http://evil.example")
    assert answer.status_code == 403
    # The page of a login is also refused if a proxy does not say which one it was.
    assert "must pass on Host and X-Forwarded-Proto" in answer.text
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--host", "0.0.0.0"], "--auth"),
        (["--host", "fs.example"], "--auth"),
        (["--host", "::", "--auth"], "unencrypted"),
        (["--tls-key", "key.pem"], "belong together"),
        (["--tls-cert", "no.pem", "--tls-key", "no.pem"], "no such file"),
        (["--allow", "everything"], "choose 'cell' or 'simulated'"),
        (["--testbeds", "nosuch"], "no such directory"),
        (["--queue"], "--queue: workers take campaigns from PostgreSQL"),
        (["--trusted-proxy", "proxy"], "--trusted-proxy proxy: 'proxy' does not"),
    ],
)
def test_the_service_rejects_unsafe_listening_options(
    tmp_path: Path, options: list[str], why: str
) -> None:
    arguments = ["serve", *options, "--state-dir", str(tmp_path)]
    done = CliRunner().invoke(command_line, arguments)
    assert done.exit_code != 0
    assert why in str(done.exception)


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("TESTBEDS", "nosuch", "nosuch: there is no such directory"),
        ("QUEUE", "true", "workers take campaigns from PostgreSQL"),
        ("TRUSTED_PROXIES", '["proxy"]', "proxy: 'proxy' does not"),
    ],
)
def test_the_service_rejects_the_same_mistakes_in_its_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str, why: str
) -> None:
    monkeypatch.setenv(f"FSTUNE_API_{name}", value)
    done = CliRunner().invoke(command_line, ["serve", "--state-dir", str(tmp_path)])
    assert str(done.exception).startswith(f"FSTUNE_API_{name}: {why}")


def test_the_service_rejects_testbeds_that_it_cannot_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreadable(path: Path) -> list[str]:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    # Root may read every directory.
    monkeypatch.setattr(os, "listdir", unreadable)
    options = ["serve", "--testbeds", str(tmp_path), "--state-dir", str(tmp_path)]
    done = CliRunner().invoke(command_line, options)
    assert str(done.exception) == f"--testbeds {tmp_path}: cannot be read: Permission denied"
