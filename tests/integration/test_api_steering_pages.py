"""The pages in a real browser while real campaigns run, are steered and die."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, nullcontext
from datetime import UTC, datetime
from pathlib import Path

import httpx2
import pytest
from playwright.sync_api import Locator, Page, expect

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
from tests.integration.path_proxy import publishing
from tests.integration.serving import Service, kept_from_outliving_us, paced
from tests.ports import free_port
from tests.waiting import wait_for
from tuner.store import NewEvent, Store

__all__ = ["browser", "context", "paced", "watched"]
pytestmark = [pytest.mark.browser, pytest.mark.timeout(400)]

#: To one host, over HTTP/1.1.
_CONNECTIONS = 6
#: Pages that have a stream at the same time.
_STREAMS = 4
#: It would run for long, so that even on a slow machine there is something left to watch.
LONG = CAMPAIGN.replace("simulated:", "paced:").replace("20m", "10000m")


@pytest.fixture
def service(request: pytest.FixtureRequest, tmp_path: Path, paced: None) -> Iterator[Service]:
    """Yield a service that requires tokens and is not yet running; below a path if the test names
    one.
    """
    path: str = getattr(request, "param", "")
    options = ("--auth", "--allow", "simulated", "--allow", "paced", "--root-path", path)
    service = Service(tmp_path, free_port(), options)
    with publishing(service.port, path) if path else nullcontext("") as service.published:
        yield service
        service.stop(signal.SIGKILL)


def show_login(service: Service, page: Page) -> str:
    """Start the service and open its first page; returns a token for it."""
    token = service.fstune("token", "create", "tester", "--scope", "operate").strip()
    service.start()
    page.goto(service.url)
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    return token


def log_in(page: Page, token: str) -> None:
    """Log in and see the list of campaigns, which is empty."""
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_text("No campaigns yet.")).to_be_visible()


def press_slowly(page: Page, place: Locator, newest: Callable[[], int]) -> None:
    """Click, but release the button only after there has been something new to show."""
    for _ in range(20):
        place.hover()
        page.mouse.down()
        if place.evaluate("element => element.matches(':active')"):
            break
        page.mouse.up()  # the page has moved it meanwhile
    before = newest()
    wait_for(lambda: newest() > before, "another event")
    page.wait_for_timeout(1000)
    page.mouse.up()


def paused_after_its_pilot(service: Service, campaign: str, page: Page) -> None:
    """Show a campaign that stays paused, however slow the machine is, until it is resumed."""
    file = service.directory / "campaign.yaml"
    file.write_text(campaign)
    service.in_a_process("pilot", str(file))
    # The list updates itself.
    page.get_by_role("link", name="watched").click()
    page.wait_for_url(re.compile("/campaigns/.+"))
    expect(page.locator("#connection")).to_have_text("live")
    expect(page.locator("#overview .state")).to_have_text("paused")


def quiet_campaign(store: Store) -> str:
    """Store a campaign in which nothing happens by itself; return its identifier."""
    return store.create_campaign("quiet", "{}", 1, datetime.now(UTC)).id


def watch(page: Page, service: Service, campaign: str) -> None:
    """Open the page of a campaign, and wait until it is live."""
    page.goto(f"{service.url}/campaigns/{campaign}")
    expect(page.locator("#connection")).to_have_text("live")


@pytest.mark.parametrize("service", ["", "/fstune"], indirect=True)
def test_a_campaign_watched_to_its_answer(service: Service, watched: Watched) -> None:
    page = watched.page
    token = show_login(service, page)
    assert barriers(page) == []
    log_in(page, token)
    picture(page, "empty")
    assert barriers(page) == []
    with kept_from_outliving_us(service) as store:
        paused_after_its_pilot(service, CAMPAIGN, page)
        page.get_by_role("button", name="Resume").click()
        expect(page.locator("#overview .state")).to_have_text("finished")
        newest = store.events(store.campaign("last").id)[-1]
    expect(page.locator("#events li").first).to_contain_text(newest.message)
    expect(page.locator("#trials tbody tr").nth(2)).to_be_visible()
    expect(page.locator("#parameters figcaption").first).to_contain_text("cache_manager.")
    picture(page, "finished")
    page.get_by_role("link", name="Settings, evidence and options").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(re.compile("Recommended|No improve"))
    picture(page, "recommendation")
    assert watched.complaints == []


def test_a_running_campaign_is_steered_and_shown_again_after_the_service_was_away(
    service: Service, watched: Watched
) -> None:
    page = watched.page
    log_in(page, show_login(service, page))
    state = page.locator("#overview .state")
    with kept_from_outliving_us(service) as store:
        paused_after_its_pilot(service, LONG, page)
        page.get_by_role("button", name="Resume").click()
        expect(page.locator("#trials tbody tr").nth(2)).to_be_visible()
        expect(page.locator("#now")).to_contain_text("current arm")
        expect(page.locator("#expected-end")).to_be_visible()
        picture(page, "running")
        page.get_by_role("button", name="Pause").click()
        expect(state).to_have_text("paused")
        page.get_by_role("button", name="Resume").click()
        expect(state).to_have_text("running")
        # The service stops and comes back; the campaign continues, and the page catches up.
        campaign = store.campaign("last").id
        service.stop(signal.SIGKILL)
        last_number = store.events(campaign)[-1].number
        expect(page.locator("#connection")).to_contain_text("connection lost")
        picture(page, "disconnected")
        assert barriers(page) == []
        wait_for(lambda: store.events(campaign)[-1].number > last_number, "another event")
        service.start()
        expect(page.locator("#connection")).to_have_text("live")
        summary = page.locator("#cancelling summary")
        press_slowly(page, summary, lambda: store.events(campaign)[-1].number)
        page.get_by_role("button", name="Cancel for good").click()
        expect(state).to_have_text("cancelled")
        newest = store.events(campaign)[-1]
    expect(page.locator("#events li").first).to_contain_text(newest.message)
    # The browser itself reports that the service was away; there are no other errors.
    assert [c for c in watched.complaints if "net::ERR_" not in c] == []


def test_what_has_the_keyboard_keeps_it_while_the_page_updates_itself(
    service: Service, watched: Watched
) -> None:
    page = watched.page
    log_in(page, show_login(service, page))
    with kept_from_outliving_us(service) as store:
        paused_after_its_pilot(service, LONG, page)
        page.get_by_role("button", name="Resume").click()
        expect(page.locator("#trials tbody tr").nth(2)).to_be_visible()
        for section, element in (
            ("overview", page.locator("#about > summary")),
            ("overview", page.get_by_role("link", name="Report as one file")),
            ("trials", page.get_by_role("button", name="Compare")),
            ("trials", page.locator("#trials-rest > summary")),
        ):
            page.locator(f"#{section}").evaluate("section => { section.dataset.mark = 'old' }")
            element.focus()
            # Its text may change, as that of "13 more trials" does.
            name = "(e => `${e.closest('[id]').id} ${e.localName} ${e.getAttribute('href')}`)"
            what = element.evaluate(name)
            expect(page.locator(f"#{section}[data-mark]")).to_have_count(0)
            assert page.evaluate(f"{name}(document.activeElement)") == what
        # In the list, a row above moves the link.
        page.goto(service.url)
        page.get_by_role("link", name="watched").focus()
        quiet_campaign(store)
        expect(page.get_by_role("link", name="quiet")).to_be_visible()
        expect(page.get_by_role("link", name="watched")).to_be_focused()
    assert watched.complaints == []


def test_a_hidden_page_keeps_no_stream_and_catches_up_when_it_is_seen_again(
    service: Service, watched: Watched
) -> None:
    page = watched.page
    log_in(page, show_login(service, page))
    with Store.open(service.directory) as store:
        campaign = quiet_campaign(store)
        # One more than the connections that a browser has to a host.
        pages = [page.context.new_page() for _ in range(_CONNECTIONS + 1)]
        for each in pages:
            watch(each, service, campaign)
            _see(each, visible=False)
            expect(each.locator("#connection")).to_have_text("connecting")
        store.add_event(campaign, NewEvent(datetime.now(UTC), "news", "something happened"))
        _see(pages[0], visible=True)
        expect(pages[0].locator("#connection")).to_have_text("live")
        expect(pages[0].locator("#events li").first).to_contain_text("something happened")
        store.add_event(campaign, NewEvent(datetime.now(UTC), "news", "more happened"))
        expect(pages[0].locator("#events li").first).to_contain_text("more happened")
    assert watched.complaints == []


def test_a_service_stops_at_once_and_an_open_page_tells_wherever_it_is_scrolled(
    service: Service, watched: Watched, capfd: pytest.CaptureFixture[str]
) -> None:
    page = watched.page
    page.set_viewport_size({"width": 360, "height": 300})
    log_in(page, show_login(service, page))
    with Store.open(service.directory) as store:
        watch(page, service, quiet_campaign(store))
    page.evaluate("window.scrollTo(0, document.body.scrollHeight)")
    service.stop()
    expect(page.locator("#connection")).to_contain_text("connection lost")
    expect(page.locator("#connection")).to_be_in_viewport()
    complaints = capfd.readouterr().err
    assert "Traceback" not in complaints
    assert "timeout graceful shutdown" not in complaints


def test_more_pages_than_connections_are_live_at_once(service: Service, watched: Watched) -> None:
    page = watched.page
    log_in(page, show_login(service, page))
    token = service.fstune("token", "create", "metrics").strip()

    def streams() -> int:
        answer = httpx2.get(f"{service.url}/metrics", headers={"Authorization": f"Bearer {token}"})
        (line,) = re.findall(r"^fstune_event_streams (\S+)$", answer.text, re.MULTILINE)
        return int(float(line))

    with Store.open(service.directory) as store:
        campaign = quiet_campaign(store)
        pages = [page.context.new_page() for _ in range(_CONNECTIONS + 2)]
        for each in pages:
            watch(each, service, campaign)
        wait_for(lambda: streams() == _STREAMS, "as many streams as there may be")
        store.add_event(campaign, NewEvent(datetime.now(UTC), "news", "something happened"))
        for each in pages:
            expect(each.locator("#events li").first).to_contain_text("something happened")
        # Other pages take the places of those that are left.
        with ExitStack() as answers:
            for each in pages[_STREAMS:]:
                answers.enter_context(each.expect_response(lambda a: "/events/stream" in a.url))
            for each in pages[:_STREAMS]:
                _see(each, visible=False)
        wait_for(lambda: streams() == _STREAMS, "streams of the other pages alone")
        _see(pages[-1], visible=False)
        wait_for(lambda: streams() == _STREAMS - 1, "one stream less")
        for each in pages[_STREAMS:-1]:
            expect(each.locator("#connection")).to_have_text("live")
    assert watched.complaints == []


def test_a_page_without_a_stream_says_that_its_campaign_is_over(
    service: Service, watched: Watched
) -> None:
    page = watched.page
    log_in(page, show_login(service, page))
    with Store.open(service.directory) as store:
        quiet, over = quiet_campaign(store), quiet_campaign(store)
    for _ in range(_STREAMS):
        other = page.context.new_page()
        watch(other, service, quiet)
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    watch(page, service, over)
    service.fstune("cancel", over)
    expect(page.locator("#connection")).to_have_text("ended")
    page.reload()
    expect(page.locator("#connection")).to_have_text("ended")
    assert [url for url in requests if "/events/stream" in url] == []
    assert watched.complaints == []


def test_a_page_is_live_where_the_browser_refuses_locks(service: Service, watched: Watched) -> None:
    page = watched.page
    page.add_init_script(
        """navigator.locks.request = async () => {
            throw new DOMException("site data is blocked", "SecurityError");
        };"""
    )
    log_in(page, show_login(service, page))
    with Store.open(service.directory) as store:
        campaign = quiet_campaign(store)
        watch(page, service, campaign)
        store.add_event(campaign, NewEvent(datetime.now(UTC), "news", "something happened"))
        expect(page.locator("#events li").first).to_contain_text("something happened")
    assert watched.complaints == []


def _see(page: Page, *, visible: bool) -> None:
    """Make a page believe that it is hidden, or seen again; without a window, it always is seen."""
    page.evaluate(
        """hidden => {
            Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
            document.dispatchEvent(new Event("visibilitychange"));
        }""",
        not visible,
    )


def test_a_page_whose_session_has_ended_shows_the_login_and_returns(
    service: Service, watched: Watched
) -> None:
    page = watched.page
    token = show_login(service, page)
    log_in(page, token)
    with Store.open(service.directory) as store:
        campaign = quiet_campaign(store)
    watch(page, service, campaign)
    service.fstune("token", "revoke", token.split("_")[1])
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    page.get_by_label("Token").fill(service.fstune("token", "create", "other").strip())
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url(f"{service.url}/campaigns/{campaign}")


def test_a_campaign_whose_process_was_killed_is_reported_and_resumed(
    service: Service, watched: Watched
) -> None:
    page = watched.page
    log_in(page, show_login(service, page))
    state = page.locator("#overview .state")
    with kept_from_outliving_us(service) as store:
        paused_after_its_pilot(service, LONG, page)
        page.get_by_role("button", name="Resume").click()
        expect(page.locator("#now")).to_contain_text("current arm", timeout=PATIENCE_MS)
        (lease,) = store.leases()
        os.kill(lease.holder.pid, signal.SIGKILL)
        # There are no further events, but the page is notified nevertheless.
        died = f"its process ({lease.holder.pid} on {lease.holder.host}) has died"
        expect(page.locator("#absence")).to_contain_text(died, timeout=PATIENCE_MS)
        expect(state).to_have_text("stalled")
        expect(page.get_by_role("button", name="Pause")).to_have_count(0)
        assert barriers(page) == []
        picture(page, "died")
        page.locator("#cancelling summary").click()
        expect(page.locator("#cancelling")).to_contain_text("Resume first, to restore it")
        page.get_by_role("button", name="Resume").click()
        expect(page.locator("#absence")).to_have_count(0, timeout=PATIENCE_MS)
        expect(page.locator("#now")).to_contain_text("current arm", timeout=PATIENCE_MS)
        (again,) = store.leases()
        assert again.holder.pid != lease.holder.pid
        page.get_by_role("button", name="Pause").click()
        expect(state).to_have_text("paused", timeout=PATIENCE_MS)
    assert watched.complaints == []
