"""The service below a path of a proxy's host, and at the root of one: all its addresses fit."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import uvicorn
from starlette.testclient import TestClient
from typer.testing import CliRunner

from api import pages
from api.app import create_app
from api.cookies import COOKIE
from api.starting import Starter
from tests.unit.api.conftest import fstune
from tests.unit.api.test_conventions import is_problem
from tests.unit.api.test_steering import SPEC
from tuner.cli.app import app as command_line
from tuner.cli.serve import _Server
from tuner.settings import ServiceSettings
from tuner.store import Store
from tuner.tokens import Scope

PAGE = {"Accept": "text/html"}
ADDRESSES = re.compile(r'\s(href|src|action|data-live|data-events)="([^"]*)"')
#: Addresses that have nothing to do with a path: in the same page, or the whole content.
ELSEWHERE = ("#", "data:")


@dataclass(frozen=True)
class Published:
    """A service that a proxy publishes below ``root``, with a token, and two campaigns: a finished
    one, and one that does not begin.
    """

    client: TestClient
    root: str
    token: str
    waiting: str

    def log_in(self, place: str = "/") -> Any:
        return self.client.post(
            "/login",
            data={"next": place, "token": self.token},
            headers={"Origin": "http://service", **PAGE},
            follow_redirects=False,
        )


@pytest.fixture(params=["", "/fstune", "/tools/fs.tune"])
def published(
    request: pytest.FixtureRequest,
    measured: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Published]:
    """Yield a service as it is behind a proxy: the server restores what the proxy removed."""
    root: str = request.param
    # No placeholder, and several pages of campaigns.
    monkeypatch.setattr(pages, "_PATIENCE_S", 60.0)
    monkeypatch.setattr(pages, "_CAMPAIGNS_SHOWN", 1)
    directory = tmp_path / "state"
    shutil.copytree(measured, directory)
    with Store.open(directory) as store:
        waiting = store.create_campaign("waiting", "{}", 1, datetime.now(UTC)).id
    token = fstune(directory, "token", "create", "me", "--scope", Scope.ADMIN).split()[0]
    settings = ServiceSettings(
        auth=True, allow=frozenset({"simulated"}), requests_per_s=1e6, burst=10**6
    )
    with TestClient(
        create_app(directory, settings), base_url=f"http://service{root}", root_path=root
    ) as client:
        yield Published(client, root, token, waiting)


@pytest.mark.slow
def test_every_address_of_every_page_leads_somewhere(published: Published) -> None:
    client, root = published.client, published.root
    assert published.log_in().status_code == 303
    waiting = [("href", f"{root}/"), ("href", f"{root}/login"), ("href", f"{root}/nothing")]
    followed: set[tuple[str, str]] = set()
    while waiting:
        kind, address = waiting.pop()
        if (kind, address) in followed or address.startswith(ELSEWHERE):
            continue
        followed.add((kind, address))
        assert address.startswith(f"{root}/"), address
        path = address.removeprefix(root)
        if kind == "action" and not path.endswith("/compare"):
            # The route is there: without an Origin, it refuses what the page may do.
            assert client.post(path).status_code == 403, address
            continue
        if kind == "data-events" and published.waiting in address:
            continue  # this stream would not end
        answer = client.get(path, headers=PAGE)
        assert answer.status_code == (404 if path == "/nothing" else 200), address
        if answer.headers["content-type"].startswith("text/html"):
            waiting += [(kind, unescape(link)) for kind, link in ADDRESSES.findall(answer.text)]
    paths = {re.sub(r"/\d{8}-\d{6}-\w+", "", a.removeprefix(root)) for _, a in followed}
    assert {
        "/",
        "/logout",
        "/campaigns/live",
        "/campaigns/compare",
        "/campaigns/cancel",
        "/campaigns/recommendation",
        "/static/fstune.css",
        "/static/fstune.js",
        "/v1/campaigns/report",
        "/v1/campaigns/recommendation",
    } <= paths
    assert any(path.startswith("/?page=") for path in paths)
    assert any(path.startswith("/campaigns?page=") for path in paths)
    assert any(path.startswith("/v1/campaigns/events/stream?after=") for path in paths)


def test_every_address_in_a_template_begins_with_the_root_path(root: Path) -> None:
    templates = [*(root / "api/templates").glob("*"), *(root / "tuner/page/templates").glob("*")]
    addresses = [a for file in templates for a in ADDRESSES.findall(file.read_text())]
    assert len(addresses) > 20
    assert [a for _, a in addresses if not a.startswith(("{{ root }}/", *ELSEWHERE))] == []
    # The script takes all addresses from the page.
    script = (root / "api/static/fstune.js").read_text()
    assert re.findall(r"""["'`]/[\w$]""", script) == []


@pytest.mark.slow
def test_the_login_leads_to_the_page_that_was_asked_for(published: Published) -> None:
    client, root = published.client, published.root
    place = "/campaigns/last/compare?a=0&b=1"
    answer = client.get(place, headers=PAGE, follow_redirects=False)
    assert answer.headers["location"] == (
        f"{root}/login?next=/campaigns/last/compare%3Fa%3D0%26b%3D1"
    )
    assert f'name="next" type="hidden" value="{place.replace("&", "&amp;")}"' in (
        client.get(answer.headers["location"].removeprefix(root), headers=PAGE).text
    )
    answer = published.log_in(place)
    assert answer.headers["location"] == root + place
    assert f"; Path={root or '/'};" in answer.headers["set-cookie"]
    answer = client.get("/login", params={"next": place}, follow_redirects=False)
    assert answer.headers["location"] == root + place
    assert client.get("/", headers=PAGE).status_code == 200
    answer = client.post("/logout", headers={"Origin": "http://service"}, follow_redirects=False)
    assert answer.headers["location"] == f"{root}/login"
    # The browser forgets the session.
    assert COOKIE not in client.cookies
    answer = client.get("/", headers=PAGE, follow_redirects=False)
    assert answer.headers["location"] == f"{root}/login"


@pytest.mark.slow
def test_a_login_never_leads_out_of_the_service(published: Published) -> None:
    for place in (
        "//evil.example",
        "/\\evil.example",
        "http://evil.example",
        "/../wiki",
        "/campaigns/../../wiki",
        "/%2e%2E/wiki",
        "/.%2e/wiki",
        "/campaigns/..",
    ):
        assert published.log_in(place).headers["location"] == f"{published.root}/"
        answer = published.client.get("/login", params={"next": place}, follow_redirects=False)
        assert answer.headers["location"] == f"{published.root}/"


@pytest.mark.slow
def test_a_button_leads_back_to_its_page(published: Published) -> None:
    published.log_in()
    answer = published.client.post(
        f"/campaigns/{published.waiting}/cancel",
        headers={"Origin": "http://service"},
        follow_redirects=False,
    )
    assert answer.headers["location"] == f"{published.root}/campaigns/{published.waiting}"


@pytest.mark.slow
def test_programs_are_led_to_what_they_made(
    published: Published, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Starter, "begin", lambda starter, campaign: None)
    monkeypatch.setattr(Starter, "start_verification", lambda starter, *what: None)
    client, root = published.client, published.root
    client.headers["Authorization"] = f"Bearer {published.token}"
    measured = client.get("/v1/campaigns/last").json()["id"]
    for path, body, list_name in (
        (f"/v1/campaigns/{measured}/verifications", {"blocks": 4}, "/verifications"),
        (f"/v1/campaigns/{measured}/plans", {}, "/applications"),
        ("/v1/campaigns", SPEC, ""),
    ):
        answer = client.post(path, json=body)
        assert answer.is_success, answer.text
        location = answer.headers["location"]
        assert re.fullmatch(rf"{re.escape(root)}/v1/campaigns/[\w-]+{list_name}", location)
        assert client.get(location.removeprefix(root)).status_code == 200
    # The framework redirects addresses with a slash too many by itself.
    answer = client.get("/v1/campaigns/", follow_redirects=False)
    assert urlsplit(answer.headers["location"]).path == f"{root}/v1/campaigns"
    servers = client.get("/openapi.json").json().get("servers")
    assert servers == ([{"url": root}] if root else None)
    assert is_problem(client.get("/v1/nothing", headers=PAGE), 404)


@pytest.mark.slow
def test_a_proxy_that_leaves_the_path_is_told_to_remove_it(published: Published) -> None:
    client, root = published.client, published.root
    if not root:
        assert client.get("/nothing").json()["detail"] == "there is no such address"
        return
    for path in (root, f"{root}/", f"{root}/v1/campaigns"):
        answer = client.get(path)
        assert is_problem(answer, 404)
        assert f"must remove {root} from the path" in answer.json()["detail"]
    assert client.get(f"{root}nothing").json()["detail"] == "there is no such address"


@pytest.mark.parametrize(
    "path",
    [
        "fstune",
        "/",
        "/fstune/",
        "//evil.example",
        "/fstune//x",
        "/fstune?x=1",
        "/fstune#x",
        "https://tuning.example.org/fstune",
        "/fs tune",
        "/fstune/..",
        "/./fstune",
        "/%66stune",
        "/fstune\n",
        "/fstune;x",
    ],
)
def test_what_is_no_path_to_publish_below_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    arguments = ["serve", "--state-dir", str(tmp_path)]
    done = CliRunner().invoke(command_line, [*arguments, "--root-path", path])
    assert done.exit_code != 0
    assert str(done.exception).startswith(f"--root-path {path}: write a path such as /fstune")
    monkeypatch.setenv("FSTUNE_API_ROOT_PATH", path)
    done = CliRunner().invoke(command_line, arguments)
    assert str(done.exception).startswith("FSTUNE_API_ROOT_PATH: write a path such as /fstune")


@pytest.mark.parametrize(
    ("variable", "options", "root"),
    [
        ("", [], ""),
        ("/fstune", [], "/fstune"),
        ("/fstune", ["--root-path", "/tools/fs-tune_1"], "/tools/fs-tune_1"),
        ("/fstune", ["--root-path", ""], ""),
    ],
)
def test_the_option_goes_before_the_variable(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    variable: str,
    options: list[str],
    root: str,
) -> None:
    configurations: list[uvicorn.Config] = []
    monkeypatch.setattr(_Server, "run", lambda server: configurations.append(server.config))
    # The command sets environment variables for the application: undo that after the test.
    monkeypatch.setattr("os.environ", {"FSTUNE_API_ROOT_PATH": variable})
    done = CliRunner().invoke(command_line, ["serve", *options, "--state-dir", str(tmp_path)])
    assert done.exit_code == 0, done.exception
    assert [configuration.root_path for configuration in configurations] == [root]
