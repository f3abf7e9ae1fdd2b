"""Web pages and their drawings, without a browser."""

from __future__ import annotations

import math
import re
import shlex
import threading
from dataclasses import replace
from datetime import UTC, datetime
from html import unescape
from importlib.resources import files
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import escape
from starlette.testclient import TestClient

from api import pages
from api.app import create_app
from tests.recommending import recommending, specification
from tests.unit.campaign.campaigns import FAST, THREADS, spec
from tuner.errors import SpecError
from tuner.model import Answer, Recommendation
from tuner.page.effects_cache import EffectsCache, Latest
from tuner.page.snapshot import Snapshot, SnapshotCache
from tuner.page.svg import WIDTH, Axis, Point, interval, series
from tuner.records.estimate import Estimate
from tuner.records.none_ran import NONE_RAN
from tuner.remote.records import read_campaign
from tuner.report.applying import meanings, steps
from tuner.report.json_documents import campaign_document
from tuner.settings import ServiceSettings
from tuner.spec.space_section import stored_spaces
from tuner.states import CampaignState
from tuner.store import NewEvent, Store

PAGE = {"Accept": "text/html"}


@pytest.mark.parametrize(
    ("path", "word"),
    [
        ("/", "over http"),
        ("/campaigns", "over http"),
        ("/campaigns/last", "Trials against the baseline"),
        ("/campaigns/last/live", "Drift and noise"),
        ("/campaigns/last/live", "times are in UTC"),
        ("/campaigns/last/live", "the trial of the answer has those of the answer."),
        ("/campaigns/last/recommendation", "-daemons"),
        ("/campaigns/last/compare?a=0&b=2", "blocks that measured both"),
        ("/login", "over http"),
    ],
)
def test_pages_are_there(client: TestClient, path: str, word: str) -> None:
    answer = client.get(path, headers=PAGE)
    assert answer.status_code == 200
    assert word in answer.text
    # The content security policy forbids inline scripts and styles.
    assert re.findall(r"<script>|<style|\sstyle=|\son[a-z]+=", answer.text) == []
    again = client.get(path, headers=PAGE | {"If-None-Match": answer.headers["etag"]})
    assert again.status_code == 304


@pytest.mark.slow
def test_a_long_campaign_is_read_in_the_background(
    measured: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready = threading.Event()
    read = SnapshotCache.of

    def slow(snapshots: SnapshotCache, campaign: str) -> Snapshot:
        assert ready.wait(60.0)
        return read(snapshots, campaign)

    monkeypatch.setattr(SnapshotCache, "of", slow)
    monkeypatch.setattr(pages, "_PATIENCE_S", 0.01)
    settings = ServiceSettings(requests_per_s=1e6, burst=10**6)
    with TestClient(create_app(measured, settings), base_url="http://localhost") as client:
        for path in ("/campaigns/last", "/campaigns/last/live"):
            meanwhile = client.get(path, headers=PAGE).text
            assert "are being read" in meanwhile
            assert 'data-again="1"' in meanwhile
            assert "/recommendation" in meanwhile
        ready.set()
        monkeypatch.setattr(pages, "_PATIENCE_S", 60.0)
        for path in ("/campaigns/last", "/campaigns/last/live"):
            whole = client.get(path, headers=PAGE).text
            assert "Trials against the baseline" in whole
            assert "are being read" not in whole


@pytest.mark.slow
def test_a_page_with_outdated_effects_requests_newer_ones(
    measured: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = ServiceSettings(requests_per_s=1e6, burst=10**6)
    # On a busy machine, reading may exceed the usual patience, and another page would be returned.
    monkeypatch.setattr(pages, "_PATIENCE_S", 60.0)
    for pending in (True, False):
        monkeypatch.setattr(
            EffectsCache,
            "soon",
            lambda effects, snapshot, now=pending: Latest(effects.of(snapshot), now),
        )
        with TestClient(create_app(measured, settings), base_url="http://localhost") as client:
            page = client.get("/campaigns/last/live", headers=PAGE).text
        assert "Up is faster than the baseline's value" in page
        assert ('data-again="2"' in page) is pending


@pytest.mark.slow
def test_the_pages_of_a_verification_say_that_it_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reason = f"{Recommendation.VERIFICATION}20260301-120000-abcd holds"
    with Store.open(tmp_path) as store:
        verification = recommending(store, spec(), {THREADS: 64}, FAST)
        assert verification.recommendation is not None
        answer = replace(verification.recommendation, reason=reason)
        event = NewEvent(verification.created, "told", "told by a test")
        store.save_recommendation(verification.id, answer, event)
    monkeypatch.setattr(pages, "_PATIENCE_S", 60.0)
    settings = ServiceSettings(requests_per_s=1e6, burst=10**6)
    with TestClient(create_app(tmp_path, settings), base_url="http://localhost") as client:
        page = client.get(f"/campaigns/{verification.id}", headers=PAGE).text
        assert f"<strong>Verification: {reason}</strong>" in page
        assert "valid no matter how often you look" in page
        assert "those of the answer" not in page
        page = client.get(f"/campaigns/{verification.id}/recommendation", headers=PAGE).text
        assert f"<h1>Verification: {reason}</h1>" in page
        assert "False-alarm risk" not in page
        assert client.get("/v1/recommendations").json() == []
        assert f">{reason}</a>" in client.get("/", headers=PAGE).text
        (document,) = client.get("/v1/campaigns").json()["items"]
        assert document["verification"] == reason
        record = read_campaign(document).recommendation
        assert record is not None
        assert record.verification == reason


def test_the_list_has_the_answers_and_says_where_there_will_be_none(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        recommending(store, spec(), {THREADS: 64}, FAST)
        campaign = store.create_campaign("stopped", "{}", 1, datetime.now(UTC)).id
        event = NewEvent(datetime.now(UTC), "told", "told by a test")
        with TestClient(create_app(tmp_path), base_url="http://localhost") as client:
            assert ">11.1% faster</a>" in client.get("/", headers=PAGE).text
            assert "none yet" in client.get("/", headers=PAGE).text
            store.move_campaign(campaign, CampaignState.CANCELLED, "", event)
            assert "none yet" not in client.get("/", headers=PAGE).text


@pytest.mark.parametrize(
    ("state", "remark"),
    [
        (CampaignState.RUNNING, "So far: the campaign is running; it may find more"),
        (CampaignState.PAUSED, "So far: the campaign is paused; it may find more"),
        (CampaignState.CANCELLED, "The campaign was cancelled before its end."),
    ],
)
def test_an_answer_from_before_the_end_says_so(
    tmp_path: Path, state: CampaignState, remark: str
) -> None:
    with Store.open(tmp_path) as store:
        early = recommending(store, spec(), {THREADS: 64}, FAST, state=state).id
        final = recommending(store, spec(), {THREADS: 64}, FAST).id
    with TestClient(create_app(tmp_path), base_url="http://localhost") as client:
        assert remark in client.get(f"/campaigns/{early}/recommendation", headers=PAGE).text
        page = client.get(f"/campaigns/{final}/recommendation", headers=PAGE).text
        assert 'id="so-far"' not in page


def test_pages_of_campaigns_without_a_trial_or_a_gain_claim_no_more(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        none = recommending(store, spec(), {THREADS: 64}, {THREADS: 64}, Answer.NO_IMPROVEMENT)
        assert none.recommendation is not None
        event = NewEvent(none.created, "told", "told by a test")
        store.save_recommendation(none.id, replace(none.recommendation, trial=0), event)
        failed = store.create_campaign("failed", "{}", 1, datetime.now(UTC)).id
        store.move_campaign(failed, CampaignState.FAILED, "the host is gone", event)
    with TestClient(create_app(tmp_path), base_url="http://localhost") as client:
        page = client.get(f"/campaigns/{none.id}/recommendation", headers=PAGE).text
        assert "Nothing differs: the settings are as found." in page
        assert "Trial 0" not in page
        assert "what changed with the settings" not in page
        page = client.get(f"/campaigns/{failed}", headers=PAGE).text
        assert "No trial yet." in page
        assert "being prepared" not in page
        assert page.count("the host is gone") == 1  # beside the state
        assert "Nothing was measured, and the campaign can be resumed." in page


@pytest.mark.parametrize(
    ("testbed", "stays"), [({"hosts": "lab.yaml"}, True), ({"cell": {}}, False)]
)
def test_the_page_of_a_recommendation_says_what_it_means_and_how_it_is_applied(
    tmp_path: Path, testbed: dict[str, object], stays: bool
) -> None:
    with Store.open(tmp_path) as store:
        before, after = {"fileserver.threads": 64}, {"fileserver.threads": 200}
        campaign = recommending(store, specification(testbed), before, after)
    answer, spaces = campaign.recommendation, stored_spaces(campaign.spec)
    assert answer is not None
    with TestClient(create_app(tmp_path), base_url="http://localhost") as client:
        page = client.get(f"/campaigns/{campaign.id}/recommendation", headers=PAGE).text
    (step,) = steps(answer, spaces)
    sentences = meanings(answer, spaces, ())
    assert len(sentences) > 1
    for text in (*sentences, f"Put these options into {step.put}; then {step.then}."):
        assert str(escape(text)) in page
    assert page.count("Put these options") == page.count("These options stay as found.") == 1
    assert (f"fstune apply {campaign.id} --plan<" in page) is stays


@pytest.mark.parametrize(
    ("flags", "spans"),
    [
        (("-chunksize", "22", "-daemons", "12"), ["-chunksize", "22", "-daemons", "12"]),
        (("-label", "on <close>", "", "it's\n-x"), ["-label", "'on <close>'", "''", None]),
        ((), []),
    ],
)
def test_no_option_is_broken_at_the_end_of_a_line_and_what_is_copied_is_exact(
    tmp_path: Path, flags: tuple[str, ...], spans: list[str | None]
) -> None:
    with Store.open(tmp_path) as store:
        campaign = recommending(store, spec(), {THREADS: 64}, FAST)
        assert campaign.recommendation is not None
        answer = replace(campaign.recommendation, flags={"fileserver": flags})
        event = NewEvent(campaign.created, "told", "told by a test")
        store.save_recommendation(campaign.id, answer, event)
    with TestClient(create_app(tmp_path), base_url="http://localhost") as client:
        page = client.get(f"/campaigns/{campaign.id}/recommendation", headers=PAGE).text
        report = client.get(f"/v1/campaigns/{campaign.id}/report", headers=PAGE).text
    (options,) = re.findall(r'<pre[^>]* id="flags-fileserver">(.*?)</pre>', page, re.DOTALL)
    assert options in report
    text = unescape(re.sub(r"</?span[^>]*>", "", options))
    assert text == (shlex.join(flags) or "(no options)")
    arguments = re.findall(r'<span class="argument">(.*?)</span>', options, re.DOTALL)
    for one, expected in zip(arguments, spans, strict=True):
        assert expected in (None, unescape(one))
    css = files("tuner.page").joinpath("static/fstune.css").read_text(encoding="utf-8")
    assert ".argument { white-space: pre; }" in css


@pytest.mark.parametrize("answer", list(Answer))
def test_the_page_of_a_campaign_states_its_answer_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: Answer
) -> None:
    monkeypatch.setattr(pages, "_PATIENCE_S", 60.0)
    with Store.open(tmp_path) as store:
        campaign = recommending(store, spec(), {THREADS: 64}, FAST, answer).id
    with TestClient(create_app(tmp_path), base_url="http://localhost") as client:
        page = client.get(f"/campaigns/{campaign}", headers=PAGE).text
    link = f'href="/campaigns/{campaign}/recommendation"'
    overview, _, rest = page.partition("</section>")
    assert overview.count("<strong>") == overview.count(link) == 1
    assert link not in rest
    assert '<h2 id="answer' not in page


@pytest.mark.slow
def test_a_campaign_shows_what_its_floor_allows_and_whether_it_is_met(client: TestClient) -> None:
    page = client.get("/campaigns/last", headers=PAGE).text
    components = page[page.index('id="components-table"') :]
    components = components[: components.index("</table>")]
    states = re.findall(r'data-label="Floor">([^<]*)<', components)
    assert states
    assert set(states) <= {"met", "not settled", "slower"}
    allowed = re.findall(r'data-label="Loss allowed \(dashed\)">([^<]*)<', components)
    assert allowed == ["5%"] * len(states)


def test_a_kind_of_testbed_that_does_not_exist_is_refused_with_the_name_of_the_variable(
    tmp_path: Path,
) -> None:
    with pytest.raises(SpecError, match=r"^FSTUNE_API_ALLOW: cells is not one of cell, "):
        create_app(tmp_path, ServiceSettings(allow=frozenset({"cells"})))


@pytest.mark.slow
def test_where_nothing_ran_the_pages_and_the_report_say_so_and_what_tells_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store.open(tmp_path) as store:
        none = recommending(store, spec(), {THREADS: 64}, {THREADS: 64}, Answer.NO_IMPROVEMENT)
        assert none.recommendation is not None
        reason = f"{NONE_RAN}all 24 tried failed (fstune show {none.id} says why)"
        answer = replace(none.recommendation, trial=0, reason=reason, ratio=None)
        event = NewEvent(none.created, "told", "told by a test")
        store.save_recommendation(none.id, answer, event)
    monkeypatch.setattr(pages, "_PATIENCE_S", 60.0)
    with TestClient(create_app(tmp_path), base_url="http://localhost") as client:
        campaign = f"/campaigns/{none.id}"
        for path in (campaign, f"{campaign}/recommendation", f"/v1{campaign}/report"):
            page = client.get(path, headers=PAGE).text
            assert "No configuration could be run: keep the baseline" in page, path
            assert f"fstune show {none.id}" in page, path
            assert "improvement shown" not in page, path
        listed = client.get("/campaigns", headers=PAGE).text
        assert "none could be run" in listed
        assert "no improvement" not in listed
        record = client.get(f"/v1{campaign}").json()
    assert record["none_ran"] is True
    with Store.open(tmp_path) as store:
        local = store.campaign(none.id)
    here, there = campaign_document(local), campaign_document(read_campaign(record))
    assert here["none_ran"] is there["none_ran"] is True
    assert campaign_document(replace(local, recommendation=None))["none_ran"] is False


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/campaigns/nosuch", 404),
        ("/campaigns/last/compare?b=99999", 404),
        ("/campaigns/last/compare?b=x", 422),
        ("/?page=x", 422),
        ("/nothing", 404),
    ],
)
def test_an_error_is_a_page_for_people_and_a_problem_for_programs(
    client: TestClient, path: str, status: int
) -> None:
    for_people = client.get(path, headers=PAGE)
    assert for_people.status_code == status
    assert 'role="alert"' in for_people.text
    for_programs = client.get(path)
    assert for_programs.status_code == status
    assert for_programs.headers["content-type"] == "application/problem+json"


def test_without_tokens_there_are_no_buttons(client: TestClient) -> None:
    assert 'method="post"' not in client.get("/campaigns/last", headers=PAGE).text
    answer = client.post("/campaigns/last/cancel", headers=PAGE)
    assert answer.status_code == 403


RATIOS = st.floats(1e-3, 1e3)


@given(ratio=RATIOS, below=st.floats(0, 1), above=st.floats(1, 100) | st.just(math.inf))
def test_faster_is_to_the_right_and_everything_stays_within_the_row(
    ratio: float, below: float, above: float
) -> None:
    e = Estimate(ratio, ratio * below, ratio * above)
    axis = Axis.around([e])
    middle = axis.x(math.log(ratio))
    assert (middle > axis.x(0.0)) == (math.log(ratio) < 0.0) or abs(math.log(ratio)) < 1e-9
    places = [float(x) for x in re.findall(r'(?:x1|x2|cx)="(-?[\d.]+)"', interval(axis, e))]
    assert all(0.0 <= x <= WIDTH for x in places)
    assert all(0.0 <= x <= WIDTH for x, _ in axis.ticks())


@pytest.mark.slow
@given(values=st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=60), steps=st.booleans())
def test_a_series_stays_within_its_picture(values: list[float], steps: bool) -> None:
    points = [Point(number, value) for number, value in enumerate(values, start=1)]
    picture = series(points, "values", steps=steps)
    for x, y in re.findall(r"(-?[\d.]+),(-?[\d.]+)", picture.partition("points=")[2]):
        assert 0.0 <= float(x) <= 720.0
        assert 0.0 <= float(y) <= 200.0


@pytest.mark.slow
def test_very_many_values_do_not_make_a_larger_picture() -> None:
    few, many = (
        series([Point(n, math.sin(n)) for n in range(count)], "", steps=True)
        for count in (1_000, 100_000)
    )
    assert len(many) < 2 * len(few)


def test_a_title_is_escaped() -> None:
    assert "&lt;b&gt;" in series([Point(1, 0.0)], '<b>"', steps=True)
