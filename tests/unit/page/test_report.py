"""Reports on campaigns that found an improvement, found none, or never ended."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.recommending import recommending
from tests.unit.api.conftest import CAMPAIGN, fstune
from tests.unit.campaign.campaigns import spec
from tuner.model import Answer, BlockKind
from tuner.page import report_builder
from tuner.page.conditions import hosts_found
from tuner.page.document import ReportDocument
from tuner.page.html import RESTS_ON, policy, report_html
from tuner.page.markdown import report_markdown, text
from tuner.page.names import Names, names
from tuner.page.report_builder import report_document
from tuner.page.snapshot import SnapshotCache
from tuner.report import applying
from tuner.report.applying import without_effect
from tuner.spec.campaign import CampaignSpec, read_spec
from tuner.states import CampaignState
from tuner.store import NewEvent, Store

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)> \"'`| *x* [y](z) &lt; </style>"


class Elements(HTMLParser):
    """The content of a page: names of elements, attributes, text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.attributes: list[tuple[str, str]] = []
        self.policies: list[str] = []
        self.styles: list[str] = []
        self.text: list[str] = []
        self._inside: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        self._inside.append(tag)
        values = {name: value or "" for name, value in attrs}
        self.attributes += values.items()
        if values.get("http-equiv") == "Content-Security-Policy":
            self.policies.append(values["content"])

    def handle_data(self, data: str) -> None:
        (self.styles if self._inside[-1:] == ["style"] else self.text).append(data)

    def handle_endtag(self, tag: str) -> None:
        self._inside.append("")


def test_a_report_contains_the_answer_and_its_evidence(
    document: ReportDocument, store: Store
) -> None:
    answer = store.campaign("last").recommendation
    assert answer is not None
    assert answer.answer is Answer.RECOMMENDED
    assert document.answer.startswith("Recommended: ")
    assert document.trial == answer.trial
    assert [s.name for s in document.settings] == ["cache_manager.daemons"]
    assert document.components.keys() == answer.components.keys()
    assert {step.part for step in document.applying} == {"cache_manager"}
    verdicts = {(one.trial, one.kind) for one in document.verdicts}
    assert (answer.trial, BlockKind.CERTIFY) in verdicts
    blocks = store.blocks(document.campaign)
    measurements = {(m.trial, b.kind) for b in blocks for m in b.measurements if m.trial}
    assert verdicts == measurements
    assert len(document.drift) == len(blocks)
    assert any("simulated" in threat for threat in document.threats)
    assert any(fact.what == "Seed" for fact in document.measured)
    assert document.recommendation is not None
    assert document.recommendation.why == document.why


@pytest.mark.slow
def test_the_noise_is_reported_as_by_fstune_show(document: ReportDocument, measured: Path) -> None:
    output = json.loads(fstune(measured, "show", "--json"))["noise"]
    assert document.noise is not None
    assert json.loads(document.noise.model_dump_json()) == output
    assert len(document.noise.rows()) == len(output["levels"])
    html, markdown = report_html(document), report_markdown(document)
    for page in (html, markdown):
        assert "Noise of the score" in page
        assert "compared within blocks" in page
        assert document.noise.rows()[1][1] in page
    without = document.model_copy(update={"noise": None})
    assert "Noise of the score" not in report_html(without) + report_markdown(without)


def test_hosts_are_listed_one_by_one() -> None:
    first = "fs kernel = 6.1; fs vm.swappiness = 60; c1 kernel = 6.1"
    later = "fs kernel = 6.12; fs vm.swappiness = 60; c1 kernel = 6.1"
    assert hosts_found([first]) == {"fs": "kernel = 6.1; vm.swappiness = 60", "c1": "kernel = 6.1"}
    hosts = hosts_found([first, later])
    assert hosts["fs"] == "kernel = 6.1; vm.swappiness = 60; kernel = 6.12"
    assert hosts_found([]) == {}


@pytest.mark.slow
def test_what_was_found_of_hosts_is_in_the_report(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        spec = CampaignSpec.model_validate(yaml.safe_load(CAMPAIGN))
        changes = {"cache_manager.daemons": 6}
        campaign = recommending(store, spec, {"cache_manager.daemons": 2}, changes).id
        data = {"identity": "dafs 1", "facts": "fileserver.nofile 1024", "hosts": "fs kernel = 6.1"}
        store.add_event(campaign, NewEvent(datetime.now(UTC), "testbed-ready", "ready", data))
        facts = {f.what: f.text for f in report_document(SnapshotCache(store), campaign).measured}
    assert facts["Host fs"] == "kernel = 6.1"
    assert facts["Limits of the hosts"] == "fileserver.nofile 1024"


def test_every_form_has_the_same_content(document: ReportDocument) -> None:
    page = "".join(Elements(report_html(document)).text)
    markdown = report_markdown(document)
    for sentence in (document.question, document.answer, *document.sure, *document.threats):
        assert sentence in page
        assert text(sentence) in markdown
    for one in document.verdicts:
        assert one.changes in page
        assert text(one.changes) in markdown
    assert ReportDocument.model_validate_json(document.json_text()) == document


def test_every_form_tells_verdicts_from_the_numbers_of_the_answer(
    document: ReportDocument,
) -> None:
    assert RESTS_ON in report_html(document)
    assert text(RESTS_ON) in report_markdown(document)


def test_every_form_shows_the_floors(document: ReportDocument) -> None:
    answer = document.recommendation
    assert answer is not None
    name, first = next(iter(answer.components.items()))
    for holds, lower, word in (
        (True, 0.9, "met"),
        (False, 0.9, "not settled"),
        (False, 1.1, "slower"),
    ):
        state = first.model_copy(update={"floor_held": holds, "lower_ratio": lower})
        changed = answer.model_copy(update={"components": answer.components | {name: state}})
        other = document.model_copy(update={"recommendation": changed})
        assert f'data-label="Floor">{word}<' in report_html(other)
        lines = report_markdown(other).splitlines()
        head = next(n for n, line in enumerate(lines) if line.startswith("| Component |"))
        row = next(line for line in lines[head:] if line.startswith(f"| {text(name)} |"))
        assert row.endswith(f"| {word} |")


def test_the_campaign_file_in_a_report_is_the_campaign(
    document: ReportDocument, store: Store, tmp_path: Path
) -> None:
    file = tmp_path / "campaign.yaml"
    file.write_text(document.campaign_file)
    assert read_spec(file) == CampaignSpec.from_json(store.campaign("last").spec)
    assert "wall_time: 1200s\n" in document.campaign_file


def test_a_report_does_not_say_where_files_are(tmp_path: Path) -> None:
    spec = '{"name": "x", "testbed": {"hosts": "/secret/lab.yaml"}, "workload": {"name": "/a/w"}}'
    with Store.open(tmp_path) as store:
        campaign = store.create_campaign("x", spec, 1, datetime.now(UTC))
        output = report_document(SnapshotCache(store), campaign.id).json_text()
    assert "lab.yaml" in output
    assert "/secret" not in output
    assert "/a/" not in output


@pytest.mark.parametrize("wrong", [7, True, ["x"], {"a": 1}])
@pytest.mark.parametrize("place", ["spaces", "workload"])
def test_names_that_are_no_text_are_left_out(tmp_path: Path, place: str, wrong: object) -> None:
    """As in an imported specification: lists of all campaigns show these names."""
    document: dict[str, object] = {
        "testbed": {"simulated": {"seed": 1}},
        "spaces": {"fileserver": {"name": wrong if place == "spaces" else "s"}},
        "workload": {"name": wrong if place == "workload" else "w"},
    }
    with Store.open(tmp_path) as store:
        campaign = store.create_campaign("x", json.dumps(document), 1, datetime.now(UTC))
    assert names(campaign) == Names()


def test_the_campaign_file_in_a_report_has_the_references(tmp_path: Path) -> None:
    measured_spec = spec(references=[{"name": "nfs", "path": "/mnt/nfs/bench"}])
    with Store.open(tmp_path) as store:
        campaign = store.create_campaign("x", measured_spec.to_json(), 1, datetime.now(UTC))
        printed = report_document(SnapshotCache(store), campaign.id).campaign_file
    file = tmp_path / "campaign.yaml"
    file.write_text(printed)
    assert read_spec(file).references == measured_spec.references


def replaced(value: Any, key: str = "") -> Any:
    """Replace every external text in a document by HOSTILE; our own enumerated words stay."""
    if isinstance(value, dict):
        return {name: replaced(each, name) for name, each in value.items()}
    if isinstance(value, list):
        return [replaced(each) for each in value]
    # Our own words are members of enumerations, whose type is not str itself.
    return HOSTILE if type(value) is str and key != "schema" else value


@pytest.fixture(scope="module")
def hostile(document: ReportDocument) -> ReportDocument:
    """Return a report in which every text is hostile."""
    whole = replaced(document.model_dump(by_alias=True))
    disturbance = {"at": document.as_of, "kind": HOSTILE, "message": HOSTILE}
    counter = {"what": HOSTILE, "baseline": HOSTILE, "trial": HOSTILE}
    whole |= {
        "disturbances": [disturbance],
        "counters": [counter],
        "components": dict.fromkeys([HOSTILE], next(iter(whole["components"].values()))),
    }
    return ReportDocument.model_validate(whole)


def test_hostile_text_is_text_in_the_page(hostile: ReportDocument) -> None:
    elements = Elements(report_html(hostile))
    assert not elements.names & {"script", "img", "iframe", "object", "form", "a href"}
    assert [name for name, _ in elements.attributes if name.startswith("on")] == []
    assert "".join(elements.text).count(HOSTILE) > 20


def test_hostile_text_is_text_in_markdown(hostile: ReportDocument) -> None:
    lines = report_markdown(hostile).splitlines()
    # Indented lines are code blocks, shown literally.
    marked = [line for line in lines if not line.startswith("    ")]
    assert [line for line in marked if "<" in line or re.search(r"(?<!\\)[`\[]", line)] == []
    assert [line for line in marked if line.startswith("#") and "script" in line] == [marked[0]]


def test_a_page_refers_to_nothing_and_allows_nothing_but_its_own_style(
    document: ReportDocument,
) -> None:
    elements = Elements(report_html(document))
    leading = [(n, v) for n, v in elements.attributes if n in ("src", "href", "srcset", "action")]
    assert all(value == "data:," or value.startswith("#") for _, value in leading)
    assert re.findall(r"url\(|@import", elements.styles[0]) == []
    (content,) = elements.policies
    digest = base64.b64encode(hashlib.sha256("".join(elements.styles).encode()).digest()).decode()
    assert f"style-src 'sha256-{digest}'" in content
    assert content == policy()
    assert "default-src 'none'" in content
    assert "script-src" not in content
    assert not any(name == "style" for name, _ in elements.attributes)


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path) as store:
        yield store


@pytest.mark.parametrize(
    ("states", "answer"),
    [
        ((), "No answer yet: the campaign is created"),
        (("running",), "No answer yet: the campaign is running"),
        (("running", "paused"), "No answer yet: the campaign is paused"),
        (("running", "failed"), "No answer: the campaign failed before it had one"),
        (("cancelled",), "No answer: the campaign was cancelled before it had one"),
    ],
)
def test_a_campaign_without_an_answer_has_a_report_that_says_so(
    empty: Store, states: tuple[str, ...], answer: str
) -> None:
    now = datetime.now(UTC)
    campaign = empty.create_campaign(HOSTILE, "{}", 1, now).id
    for state in states:
        event = NewEvent(now, f"campaign-{state}", HOSTILE)
        empty.move_campaign(campaign, CampaignState(state), f"it {HOSTILE}", event)
    document = report_document(SnapshotCache(empty), campaign)
    assert document.answer == answer
    assert document.sure == ["Nothing is claimed: no configuration has been certified."]
    assert document.recommendation is None
    assert document.applying == []
    page = Elements(report_html(document))
    assert answer in "".join(page.text)
    assert "script" not in page.names
    assert answer in report_markdown(document)


def test_a_setting_that_is_in_effect_already_is_no_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = []

    def look(*of: Any) -> frozenset[str]:
        looks.append(of)
        return without_effect(*of)

    # It is worked out once for all sections.
    for module in (report_builder, applying):
        monkeypatch.setattr(module, "without_effect", look)
    with Store.open(tmp_path) as store:
        new = {"fileserver.threads": 64, "cache_manager.daemons": 4}
        campaign = recommending(store, spec(), {}, new)
        document = report_document(SnapshotCache(store), campaign.id)
    assert len(looks) == 1
    assert {row.name for row in document.settings} == set(new)
    assert any(text.endswith("no change: 4 is in effect already") for text in document.meanings)
    assert not any("changed together" in text for text in document.threats)


def test_intervals_of_components_name_their_level(document: ReportDocument) -> None:
    assert document.recommendation is not None
    (heading,) = re.findall(r"\| Component \|.*", report_markdown(document))
    percent = 100.0 * document.recommendation.improvement.confidence
    assert heading == f"| Component | Recommended: faster by | {percent:.3g}% interval | Floor |"


@pytest.mark.slow
def test_what_looks_good_is_not_claimed_before_it_is_certified(tmp_path: Path) -> None:
    file = tmp_path / "campaign.yaml"
    # The campaign ends before anything can be certified.
    file.write_text(CAMPAIGN.replace("wall_time: 20m", "wall_time: 20m, measurements: 12"))
    fstune(tmp_path, "run", str(file))
    with Store.open(tmp_path) as store:
        document = report_document(SnapshotCache(store), store.campaign("last").id)
    assert document.answer == "No improvement shown: keep the baseline"
    assert document.applying == []
    assert "To apply" not in report_html(document)
    assert any("no improvement is claimed" in s or "may be" in s for s in document.sure)
