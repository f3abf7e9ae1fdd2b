"""The pages of a finished campaign in a real browser, from a real service."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, expect

from tests.integration.pages import (
    CAMPAIGN,
    PATIENCE_MS,
    Watched,
    barriers,
    browser,
    context,
    picture,
    watched,
)
from tests.integration.serving import Service
from tests.ports import free_port
from tuner.store import Store

__all__ = ["browser", "context", "watched"]
pytestmark = [pytest.mark.browser, pytest.mark.timeout(400)]


#: Three configurations, whose table is wide.
COMPARED = """
name: compared
testbed: {simulated: {effects: [{parameter: cache_manager.daemons, low: 5, change: -0.25}]}}
spaces: {cache_manager: openafs-cache-manager-fuse-1.8}
workload: mixed-use
compare:
  many more daemons: {cache_manager: {daemons: 8}}
  a larger chunk: {cache_manager: {chunksize: 20}}
  more cached status entries: {cache_manager: {stat: 20000}}
budget: {wall_time: 10m}
"""
HOSTILE_NAME = "<img src=x onerror=alert(1)>"
#: As long as names may be, and without a place where a line may break.
LONG_NAME = "fileserver01_" * 6 + "of"


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Yield a service without tokens; its last campaign is finished, an earlier one has a hostile
    name.
    """
    directory = tmp_path_factory.mktemp("finished")
    file = directory / "campaign.yaml"
    file.write_text(CAMPAIGN)
    service = Service(directory, free_port())
    compared = directory / "compared.yaml"
    compared.write_text(COMPARED)
    service.fstune("run", str(compared))
    with Store.open(directory) as store:
        store.create_campaign(HOSTILE_NAME, "{}", 1, datetime.now(UTC))
        store.create_campaign(LONG_NAME, "{}", 1, datetime.now(UTC))
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
    browser: Browser, finished: Service, scheme: str, size: tuple[int, int]
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
    with Store.open(finished.directory) as store:
        (compared,) = [c.id for c in store.campaigns() if c.name == "compared"]
    for number, path in enumerate((*PAGES, f"/campaigns/{compared}")):
        page.goto(finished.url + path)
        if path == "/campaigns/last":
            # Parts computed in the background are requested later and must fit as well.
            expect(page.locator("#parameters svg.parallel")).to_be_visible()
            expect(page.locator("#parameters[data-again]")).to_have_count(0)
        picture(page, f"{number}-{scheme}-{width}")
        # Nothing overflows: wide elements scroll on their own, and on a phone there are none.
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path
        if width < 400:
            every = "[...document.querySelectorAll('.scroll')]"
            wide = f"{every}.filter(e => e.scrollWidth > e.clientWidth).map(e => e.id)"
            assert page.evaluate(wide) == [], path
            texts = "[...document.querySelectorAll('svg.series text')]"
            boxes = f"{texts}.map(t => t.getBoundingClientRect())"
            small = f"{boxes}.filter(box => box.height < 9 || box.left < 0).length"
            assert page.evaluate(small) == 0, path
        assert barriers(page) == [], path
    # The browser itself reports the missing page.
    assert [c for c in complaints if "404" not in c] == []
    context.close()


def test_the_narrowest_screens_cut_off_neither_long_names_nor_the_login(
    browser: Browser, finished: Service
) -> None:
    locked = Service(finished.directory, free_port(), ("--auth",))
    locked.start()
    context = browser.new_context(viewport={"width": 320, "height": 640})
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    try:
        with Store.open(finished.directory) as store:
            (long,) = [c.id for c in store.campaigns() if c.name == LONG_NAME]
        for url in (finished.url, f"{finished.url}/campaigns/{long}", locked.url):
            page.goto(url)
            assert page.evaluate("document.documentElement.scrollWidth") <= 320, url
    finally:
        context.close()
        locked.stop()


def test_buttons_that_need_a_script_are_only_where_scripts_run(
    browser: Browser, finished: Service
) -> None:
    for scripts in (True, False):
        context = browser.new_context(java_script_enabled=scripts)
        page = context.new_page()
        page.goto(f"{finished.url}/campaigns/last/recommendation")
        expect(page.locator("#flags-cache_manager")).to_be_visible()
        copy = page.locator("button[data-copy=flags-cache_manager]")
        expect(copy).to_be_visible(visible=scripts)
        context.close()


@pytest.fixture(scope="module")
def report(finished: Service, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the report of the finished campaign as a file."""
    directory = tmp_path_factory.mktemp("report")
    finished.fstune("report", "last", "--html", str(directory))
    (file,) = directory.glob("fstune-report-*.html")
    return file


@LOOKS
def test_a_report_is_read_from_a_file_without_a_network(
    browser: Browser, report: Path, scheme: str, size: tuple[int, int]
) -> None:
    width, height = size
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
    page.goto(report.as_uri())
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
    picture(page, f"report-{scheme}-{width}")
    assert [url for url in requests if url != report.as_uri()] == []
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
    expect(page.locator(".difference").first).to_contain_text(
        re.compile("blocks? that measured both")
    )
    kinds = page.get_by_role("heading", level=2).all_text_contents()
    assert "In the search" in kinds
    assert page.locator("svg.dots").count() == len(kinds) == len(set(kinds))
    assert page.locator("svg.dots circle").count() > 5


def test_pages_say_what_is_wrong_in_words(watched: Watched, finished: Service) -> None:
    page = watched.page
    page.goto(f"{finished.url}/campaigns/nosuch")
    expect(page.get_by_role("heading", level=1)).to_have_text("Not found")
    expect(page.get_by_role("alert")).to_contain_text("there is no campaign 'nosuch'")
    page.get_by_role("link", name="All campaigns").click()
    expect(page.get_by_role("link", name="watched")).to_be_visible()


def test_paper_has_what_is_folded_away_on_the_screen(watched: Watched, finished: Service) -> None:
    page = watched.page
    # The width of A4 between its margins, at which a screen has the layout of a phone.
    page.set_viewport_size({"width": 680, "height": 960})
    page.goto(f"{finished.url}/campaigns/last")
    expect(page.locator("#parameters[data-again]")).to_have_count(0)
    about, heading = page.locator("#about dl"), page.locator("#trials-table thead").first
    expect(about).to_be_hidden()
    assert heading.evaluate("one => getComputedStyle(one).position") == "absolute"
    page.emulate_media(media="print")
    expect(about).to_be_visible()
    assert heading.evaluate("one => getComputedStyle(one).position") == "static"
    expect(page.get_by_role("button", name="Compare")).to_be_hidden()
    events = page.locator("#events-list")
    assert events.evaluate("one => one.scrollHeight <= one.clientHeight")
    assert page.evaluate("document.documentElement.scrollWidth") <= 680


def test_what_a_campaign_is_called_is_never_markup(watched: Watched, finished: Service) -> None:
    page = watched.page
    page.goto(finished.url)
    page.get_by_role("link", name=HOSTILE_NAME).click()
    expect(page.get_by_role("heading", level=1)).to_have_text(HOSTILE_NAME)
    assert page.locator("img").count() == 0
    assert watched.complaints == []
