"""The pages in a real browser, from a real service with running campaigns."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests import browser as browsers
from tests.ending import kill_runs
from tests.integration.conftest import command, wait_for
from tests.ports import free_port
from tuner.store import Store

pytestmark = [pytest.mark.browser, pytest.mark.timeout(400)]

#: Much noise, so that nothing is decided early.
CAMPAIGN = """
name: watched
testbed:
  simulated:
    noise: 0.05
    effects: [{parameter: cache_manager.daemons, low: 4, change: -0.25}]
spaces:
  cache_manager: {name: openafs-cache-manager-fuse-1.8, only: [daemons, stat, volumes]}
workload: mixed-use
pilot: {blocks: 4, override: true}
search: {sampler: random, arms: 4}
budget: {wall_time: 100m}
"""
#: Long enough for a busy machine; waits end as soon as they can.
PATIENCE_MS = 100_000
expect.set_options(timeout=PATIENCE_MS)


@dataclass
class Service:
    """``fstune serve`` as a process that can be stopped and restarted at the same address."""

    directory: Path
    port: int
    options: tuple[str, ...] = ()
    process: subprocess.Popen[bytes] | None = field(default=None)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def fstune(self, *arguments: str) -> str:
        done = subprocess.run(
            command(*arguments, "--state-dir", str(self.directory)),
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=100,
            check=True,
        )
        return done.stdout

    def start(self) -> None:
        options = ("--port", str(self.port), "--state-dir", str(self.directory), *self.options)
        self.process = subprocess.Popen(command("serve", *options), env=self._environment)
        deadline = time.monotonic() + 100.0
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 10.0).close()
                return
            except OSError:
                assert self.process.poll() is None, "the service has ended"
                assert time.monotonic() < deadline, "the service does not answer"
                time.sleep(0.05)

    def stop(self, number: int = signal.SIGTERM) -> None:
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait(100)
            self.process = None

    @property
    def _environment(self) -> dict[str, str]:
        return dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path))


@pytest.fixture(scope="module")
def browser(root: Path) -> Iterator[Browser]:
    with browsers.running(root / "build" / "test-state" / "packages") as browser:
        yield browser


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    service = Service(tmp_path, free_port())
    yield service
    service.stop(signal.SIGKILL)


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    context = browser.new_context()
    context.set_default_timeout(PATIENCE_MS)
    yield context
    context.close()


@dataclass
class Watched:
    """A page, and the errors on its console."""

    page: Page
    complaints: list[str]


@pytest.fixture
def watched(context: BrowserContext) -> Watched:
    page = context.new_page()
    complaints: list[str] = []
    page.on("console", lambda m: complaints.append(m.text) if m.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    return Watched(page, complaints)


def picture(page: Page, tmp_path: Path, name: str) -> None:
    """Save a screenshot of the page for later inspection."""
    directory = Path(os.environ.get("FSTUNE_TEST_PICTURES", tmp_path))
    page.screenshot(path=directory / f"{name}.png", full_page=True)


def barriers(page: Page) -> list[str]:
    """Return the accessibility problems that axe-core finds on a page."""
    violations = Axe().run(page).response["violations"]
    return [
        f"{one['id']} ({one['impact']}): {[n['html'][:200] for n in one['nodes']]}"
        for one in violations
    ]


def log_in(service: Service, page: Page) -> None:
    """Log in with a token and open the list of campaigns, which is empty."""
    service.options = ("--auth", "--allow", "simulated")
    token = service.fstune("token", "create", "tester", "--scope", "operate").strip()
    service.start()
    page.goto(service.url)
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    assert barriers(page) == []
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_text("No campaigns yet.")).to_be_visible()


def paused_after_its_pilot(service: Service, campaign: str, page: Page) -> None:
    """Show a campaign that stays paused, however slow the machine is, until it is resumed."""
    file = service.directory / "campaign.yaml"
    file.write_text(campaign)
    subprocess.run(
        command("pilot", str(file), "--state-dir", str(service.directory)),
        env=service._environment,
        capture_output=True,
        timeout=100,
        check=False,
    )
    # The list updates itself.
    page.get_by_role("link", name="watched").click()
    page.wait_for_url(re.compile("/campaigns/.+"))
    expect(page.locator("#connection")).to_have_text("live")
    expect(page.locator("#overview .state")).to_have_text("paused")


@contextmanager
def kept_from_outliving_us(service: Service) -> Iterator[Store]:
    """Kill campaigns that are still running at the end of the test."""
    with Store.open(service.directory) as store:
        try:
            yield store
        finally:
            kill_runs(store)


def test_a_campaign_watched_to_its_answer(
    service: Service, watched: Watched, tmp_path: Path
) -> None:
    page = watched.page
    log_in(service, page)
    picture(page, tmp_path, "empty")
    assert barriers(page) == []
    with kept_from_outliving_us(service) as store:
        paused_after_its_pilot(service, CAMPAIGN.replace("100m", "20m"), page)
        page.get_by_role("button", name="Resume").click()
        expect(page.locator("#overview .state")).to_have_text("finished")
        newest = store.events(store.campaign("last").id)[-1]
    expect(page.locator("#events li").first).to_contain_text(newest.message)
    expect(page.locator("#trials tbody tr").nth(2)).to_be_visible()
    expect(page.locator("#parameters figcaption").first).to_contain_text("cache_manager.")
    picture(page, tmp_path, "finished")
    page.get_by_role("link", name="Settings, evidence and options").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(re.compile("Recommended|No improve"))
    picture(page, tmp_path, "recommendation")
    assert watched.complaints == []


def test_a_running_campaign_is_steered_and_shown_again_after_the_service_was_away(
    service: Service, watched: Watched, tmp_path: Path
) -> None:
    page = watched.page
    log_in(service, page)
    state = page.locator("#overview .state")
    with kept_from_outliving_us(service) as store:
        # It would run for hours, so that even on a slow machine there is something left to watch.
        paused_after_its_pilot(service, CAMPAIGN.replace("100m", "10000m"), page)
        page.get_by_role("button", name="Resume").click()
        expect(page.locator("#trials tbody tr").nth(2)).to_be_visible()
        expect(page.locator("#now")).to_contain_text("current arm")
        expect(page.locator("#expected-end")).to_be_visible()
        picture(page, tmp_path, "running")
        page.get_by_role("button", name="Pause").click()
        expect(state).to_have_text("paused")
        page.get_by_role("button", name="Resume").click()
        expect(state).to_have_text("running")
        # The service stops and comes back; the campaign continues, and the page catches up.
        campaign = store.campaign("last").id
        service.stop(signal.SIGKILL)
        last_number = store.events(campaign)[-1].number
        expect(page.locator("#connection")).to_contain_text("connection lost")
        picture(page, tmp_path, "disconnected")
        assert barriers(page) == []
        wait_for(lambda: store.events(campaign)[-1].number > last_number, "another event")
        service.start()
        expect(page.locator("#connection")).to_have_text("live")
        page.locator("#cancelling summary").click()
        page.get_by_role("button", name="Cancel for good").click()
        expect(state).to_have_text("cancelled")
        newest = store.events(campaign)[-1]
    expect(page.locator("#events li").first).to_contain_text(newest.message)
    # The browser itself reports that the service was away; there are no other errors.
    assert [c for c in watched.complaints if "net::ERR_" not in c] == []


def test_a_campaign_whose_process_was_killed_is_reported_and_resumed(
    service: Service, watched: Watched, tmp_path: Path
) -> None:
    page = watched.page
    log_in(service, page)
    state = page.locator("#overview .state")
    with kept_from_outliving_us(service) as store:
        paused_after_its_pilot(service, CAMPAIGN.replace("100m", "10000m"), page)
        page.get_by_role("button", name="Resume").click()
        expect(page.locator("#now")).to_contain_text("current arm", timeout=PATIENCE_MS)
        (lease,) = store.leases()
        os.kill(lease.holder.pid, signal.SIGKILL)
        # There are no further events, but the page is notified nevertheless.
        died = f"its process ({lease.holder.pid} on {lease.holder.host}) has died"
        expect(page.locator("#absence")).to_contain_text(died, timeout=PATIENCE_MS)
        expect(state).to_have_text("running")
        expect(page.get_by_role("button", name="Pause")).to_have_count(0)
        assert barriers(page) == []
        picture(page, tmp_path, "died")
        page.get_by_role("button", name="Resume").click()
        expect(page.locator("#absence")).to_have_count(0, timeout=PATIENCE_MS)
        expect(page.locator("#now")).to_contain_text("current arm", timeout=PATIENCE_MS)
        (again,) = store.leases()
        assert again.holder.pid != lease.holder.pid
        page.get_by_role("button", name="Pause").click()
        expect(state).to_have_text("paused", timeout=PATIENCE_MS)
    assert watched.complaints == []


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Yield a service without tokens that has one finished campaign."""
    directory = tmp_path_factory.mktemp("finished")
    file = directory / "campaign.yaml"
    file.write_text(CAMPAIGN.replace("100m", "20m"))
    service = Service(directory, free_port())
    service.fstune("run", str(file))
    service.start()
    yield service
    service.stop()


PAGES = (
    "/",
    "/campaigns/last",
    "/campaigns/last/recommendation",
    "/campaigns/last/compare?b=2",
    "/v1/campaigns/last/report",
    "/campaigns/nosuch",
)


#: Colours and sizes are independent, so each is checked once.
LOOKS = pytest.mark.parametrize(
    ("scheme", "size"),
    [("light", (1280, 800)), ("dark", (360, 740))],
    ids=["light-screen", "dark-phone"],
)


@LOOKS
def test_pages_fit_and_can_be_read(
    browser: Browser, finished: Service, tmp_path: Path, scheme: str, size: tuple[int, int]
) -> None:
    width, height = size
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme="dark" if scheme == "dark" else "light",
    )
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    complaints: list[str] = []
    page.on("console", lambda m: complaints.append(m.text) if m.type == "error" else None)
    for number, path in enumerate(PAGES):
        page.goto(finished.url + path)
        if path == "/campaigns/last":
            # Parts computed in the background are requested later and must fit as well.
            expect(page.locator("#parameters svg.parallel")).to_be_visible()
            expect(page.locator("#parameters[data-again]")).to_have_count(0)
        picture(page, tmp_path, f"{number}-{scheme}-{width}")
        # Nothing overflows: wide elements scroll on their own, and on a phone there are none.
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path
        if width < 400:
            every = "[...document.querySelectorAll('.scroll')]"
            wide = f"{every}.filter(e => e.scrollWidth > e.clientWidth).map(e => e.id)"
            assert page.evaluate(wide) == [], path
        assert barriers(page) == [], path
    # The browser itself reports the missing page.
    assert [c for c in complaints if "404" not in c] == []
    context.close()


@LOOKS
def test_a_report_is_read_from_a_file_without_a_network(
    browser: Browser, finished: Service, tmp_path: Path, scheme: str, size: tuple[int, int]
) -> None:
    width, height = size
    finished.fstune("report", "last", "--html", str(tmp_path))
    (file,) = tmp_path.glob("fstune-report-*.html")
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme="dark" if scheme == "dark" else "light",
        offline=True,
    )
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    requests: list[str] = []
    complaints: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.on("console", lambda message: complaints.append(message.text))
    page.goto(file.as_uri())
    expect(page.get_by_role("heading", level=1)).to_have_text(re.compile("Recommended|No improve"))
    # Its style is in effect: only that combines the rows of a forest plot into one picture.
    expect(page.locator("svg.interval .dot").first).to_be_visible()
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert ground == ("rgb(20, 23, 26)" if scheme == "dark" else "rgb(251, 251, 250)")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert barriers(page) == []
    every = page.get_by_role("region", name="Table of all verdicts")
    expect(every).to_be_hidden()
    page.get_by_text(re.compile("^All verdicts")).click()
    expect(every).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert barriers(page) == []
    picture(page, tmp_path, f"report-{scheme}-{width}")
    assert [url for url in requests if url != file.as_uri()] == []
    assert complaints == []
    context.close()


def test_everything_can_be_reached_by_keyboard(watched: Watched, finished: Service) -> None:
    page = watched.page
    page.goto(f"{finished.url}/campaigns/last/recommendation")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    expected = page.locator("main a, main button, main summary").count()
    reached = set()
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.outerHTML.slice(0, 200)"))
    assert sum(html.startswith(("<a", "<button", "<summary")) for html in reached) >= expected


def test_options_are_copied(context: BrowserContext, watched: Watched, finished: Service) -> None:
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = watched.page
    page.goto(f"{finished.url}/campaigns/last/recommendation")
    page.get_by_role("button", name="Copy the options of cache_manager").click()
    expect(page.locator("#connection")).to_have_text("copied")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied == page.locator("#flags-cache_manager").text_content()
    assert "-daemons" in copied


def test_two_trials_are_compared(watched: Watched, finished: Service) -> None:
    page = watched.page
    page.goto(f"{finished.url}/campaigns/last")
    page.get_by_label("with trial").fill("2")
    page.get_by_role("button", name="Compare").click()
    expect(page.locator(".difference").first).to_contain_text("blocks that measured both")
    kinds = page.get_by_role("heading", level=2).all_text_contents()
    assert "In the search" in kinds
    assert page.locator("svg.dots").count() == len(kinds) == len(set(kinds))
    assert page.locator("svg.dots circle").count() > 5


def test_pages_say_what_is_wrong_in_words(watched: Watched, finished: Service) -> None:
    page = watched.page
    page.goto(f"{finished.url}/campaigns/nosuch")
    expect(page.get_by_role("heading", level=1)).to_have_text("Not Found")
    expect(page.get_by_role("alert")).to_contain_text("there is no campaign 'nosuch'")
    page.get_by_role("link", name="All campaigns").click()
    expect(page.get_by_role("link", name="watched")).to_be_visible()


def test_what_a_campaign_is_called_is_never_markup(
    service: Service, watched: Watched, tmp_path: Path
) -> None:
    name = "<img src=x onerror=alert(1)>"
    with Store.open(tmp_path) as store:
        store.create_campaign(name, "{}", 1, datetime.now(UTC))
    service.start()
    page = watched.page
    page.goto(service.url)
    page.get_by_role("link", name=name).click()
    expect(page.get_by_role("heading", level=1)).to_have_text(name)
    assert page.locator("img").count() == 0
    assert watched.complaints == []
