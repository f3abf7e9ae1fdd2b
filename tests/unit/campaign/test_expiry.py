"""Certificates expire when their testbed has changed, which is reported wherever they appear."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from tests.counting import calls_of
from tests.unit.campaign.campaigns import Campaign, faster, spec
from tests.unit.campaign.conftest import Begin
from tuner.model import Aspect
from tuner.page.recommendations import (
    Filters,
    KnownRecommendation,
    known_json,
    known_page,
    known_recommendations,
)
from tuner.page.report_builder import report_document
from tuner.page.snapshot import SnapshotCache
from tuner.report.listing import show
from tuner.results.expiry import caveat, expired, fingerprint, with_expiry
from tuner.states import EventKind
from tuner.store import NewEvent, Store
from tuner.text import faster as faster_by

pytestmark = pytest.mark.slow

OTHER = "dafileserver OpenAFS 1.8.10"


@pytest.fixture
def certified(finished: Campaign) -> Campaign:
    """Return a campaign with a certificate."""
    return finished


def seen_later(
    campaign: Campaign,
    findings: dict[str, str],
    *,
    aspect: Aspect | None = None,
    hours: float = 1.0,
) -> str:
    """Store a later campaign with these findings, on the same testbed or on ``aspect``."""
    store = campaign.store
    at = datetime.now(UTC) + timedelta(hours=hours)
    later = store.create_campaign("later", campaign.spec.to_json(), 1, at).id
    testbed = aspect or store.measured_with(campaign.id)["testbed"]
    store.set_measured_with(later, {"testbed": testbed})
    store.add_event(later, NewEvent(at, "testbed-ready", "ready", dict(findings)))
    return later


def as_found(campaign: Campaign) -> dict[str, str]:
    ready = campaign.store.events(campaign.id, kinds=["testbed-ready"])[0]
    return {key: str(ready.data[key]) for key in ("identity", "facts")}


def reason(campaign: Campaign) -> str:
    return expired(campaign.store, campaign.store.campaign(campaign.id))


def test_a_testbed_that_is_found_as_it_was_keeps_its_certificate(certified: Campaign) -> None:
    assert reason(certified) == ""
    seen_later(certified, as_found(certified))
    assert reason(certified) == ""


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("identity", OTHER, "other programs dafileserver OpenAFS 1.8.10, not "),
        ("facts", "fileserver.net_core_rmem_max 1", "other limits of its hosts fileserver.net"),
    ],
)
def test_another_version_or_limit_ends_it(
    certified: Campaign, key: str, value: str, message: str
) -> None:
    later = seen_later(certified, as_found(certified) | {key: value})
    assert reason(certified).startswith(
        f"expired: campaign {later} found this testbed with {message}"
    )
    assert f"'fstune verify {certified.id}'" in reason(certified)


HOSTS = "fs1 kernel = 6.1.0-28; fs1 /vicepa = ext4 on A; fs1 vm.dirty_ratio = 20"


def with_hosts(campaign: Campaign, hosts: str) -> None:
    """Let the campaign itself find these hosts; the newest findings count."""
    findings = as_found(campaign) | {"hosts": hosts}
    event = NewEvent(datetime.now(UTC), "testbed-ready", "ready", dict(findings))
    campaign.store.add_event(campaign.id, event)


@pytest.mark.parametrize(
    ("hosts", "message"),
    [
        (HOSTS, ""),
        (HOSTS.replace("-28", "-30"), "fs1 kernel 6.1.0-30, not 6.1.0-28 ("),
        (HOSTS.replace("on A", "on B"), "fs1 /vicepa ext4 on B, not ext4 on A ("),
        (HOSTS.replace("= 20", "= 40"), "fs1 vm.dirty_ratio 40, not 20 ("),
        # A later release may read more, or a host may report less; neither is a change.
        (f"{HOSTS}; fs1 vm.swappiness = 60", ""),
        (HOSTS.partition(";")[0], ""),
        ("", ""),
    ],
)
def test_another_kernel_disk_or_sysctl_ends_it(
    certified: Campaign, hosts: str, message: str
) -> None:
    with_hosts(certified, HOSTS)
    seen_later(certified, as_found(certified) | {"hosts": hosts})
    expected = f"found this testbed with other hosts: {message}" if message else ""
    assert expected in reason(certified)
    assert bool(reason(certified)) == bool(message)


def test_a_campaign_of_before_hosts_were_read_keeps_certificate_and_fingerprint(
    certified: Campaign,
) -> None:
    before = fingerprint(as_found(certified))
    assert before == fingerprint(as_found(certified) | {"hosts": ""})
    seen_later(certified, as_found(certified) | {"hosts": HOSTS})
    assert reason(certified) == ""
    assert fingerprint(as_found(certified) | {"hosts": HOSTS}) != before


@pytest.mark.parametrize(
    "data",
    [
        {"elsewhere": False},
        {"elsewhere": False, "outcome": "odd"},
        {"elsewhere": False, "outcome": "holds"},
        {"elsewhere": False, "outcome": None, "campaign": 7},
    ],
)
def test_a_verification_that_cannot_be_read_lifts_nothing(
    certified: Campaign, data: dict[str, str | int | bool | None]
) -> None:
    seen_later(certified, as_found(certified) | {"identity": OTHER})
    event = NewEvent(datetime.now(UTC), EventKind.VERIFIED, "verified", data)
    certified.store.add_event(certified.id, event)
    assert reason(certified).startswith("expired: ")


def verified_later(
    campaign: Campaign,
    findings: dict[str, str],
    *,
    outcome: str = "holds",
    elsewhere: bool = False,
    interval: tuple[float, ...] = (0.9, 0.85, 0.95),
) -> datetime:
    """Store a verification with these findings and this outcome. ``interval``: ratio and ends."""
    store, at = campaign.store, datetime.now(UTC) + timedelta(hours=3)
    verification = store.create_campaign("verify", campaign.spec.to_json(), 1, at).id
    store.add_event(verification, NewEvent(at, "testbed-ready", "ready", dict(findings)))
    data: dict[str, str | float | bool] = {
        "campaign": verification,
        "outcome": outcome,
        "elsewhere": elsewhere,
        "confidence": 0.95,
        **dict(zip(("ratio", "lower", "upper"), interval, strict=True)),
    }
    store.add_event(campaign.id, NewEvent(at, EventKind.VERIFIED, "verified", data))
    return at


@pytest.mark.parametrize(
    ("findings", "more", "lifted"),
    [
        ({}, {}, True),
        ({}, {"outcome": "is not settled"}, False),
        ({}, {"elsewhere": True}, False),
        ({}, {"interval": (0.9, 0.0, 0.95)}, False),
        # Verified before the testbed reached its present state.
        ({"identity": "dafileserver OpenAFS 1.8.9"}, {}, False),
    ],
)
def test_a_certificate_verified_to_hold_is_no_longer_expired(
    certified: Campaign, findings: dict[str, str], more: dict[str, Any], lifted: bool
) -> None:
    now = as_found(certified) | {"identity": OTHER}
    seen_later(certified, now)
    assert reason(certified) != ""
    verified_later(certified, now | findings, **more)
    assert (reason(certified) == "") is lifted
    # It measured another difference.
    verified_later(certified, now, outcome="cannot be judged")
    assert (reason(certified) == "") is lifted
    verified_later(certified, now, outcome="no longer holds")
    assert reason(certified) != ""


def test_a_verification_that_shows_less_than_was_certified_lifts_nothing(
    certified: Campaign,
) -> None:
    """It says what was measured instead, wherever the expiry is shown."""
    store = certified.store
    answer = store.campaign(certified.id).recommendation
    assert answer is not None
    assert answer.upper is not None
    now = as_found(certified) | {"identity": OTHER}
    seen_later(certified, now)
    middle = (1.0 + answer.upper) / 2.0
    # An interval that contains what was certified does not contradict it.
    verified_later(certified, now, interval=(middle, answer.upper, 0.999))
    assert reason(certified) == ""
    at = verified_later(certified, now, interval=(1.0 / 1.02, 1.0 / 1.031, 1.0 / 1.009))
    message = (
        f"; verified on {at:%Y-%m-%d}: 2.0% faster (95% interval 0.9 to 3.1%), less than what was "
        f"certified, at least {faster_by(answer.upper)}; certify again with "
        f"'fstune branch {certified.id} FILE'"
    )
    assert reason(certified).startswith("expired: ")
    assert reason(certified).endswith(message)
    assert "fstune verify" not in reason(certified)
    document = report_document(SnapshotCache(store), certified.id).recommendation
    assert document is not None
    assert document.notes[0].endswith(message)
    rows = known_recommendations(store, Filters(), 10)
    assert rows[0].expired.endswith(message)
    assert message in " ".join(printed(rows))


LESS = (1.0 / 1.02, 1.0 / 1.031, 1.0 / 1.009)
SLOWER = (1.05, 1.01, 1.09)


@pytest.mark.parametrize(
    ("outcome", "interval", "words"),
    [
        ("holds", LESS, "2.0% faster (95% interval 0.9 to 3.1%)"),
        ("no longer holds", SLOWER, "5.0% slower (95% interval 1.0 to 9.0%)"),
    ],
)
def test_less_than_was_certified_is_a_caveat_also_where_nothing_has_expired(
    certified: Campaign, outcome: str, interval: tuple[float, ...], words: str
) -> None:
    store = certified.store
    answer = store.campaign(certified.id).recommendation
    assert answer is not None
    assert answer.upper is not None
    verified_later(certified, as_found(certified), interval=(answer.upper, answer.upper, 0.999))
    assert with_expiry(store, store.campaign(certified.id)).recommendation == answer
    at = verified_later(certified, as_found(certified), outcome=outcome, interval=interval)
    message = (
        f"verified on {at:%Y-%m-%d}: {words}, less than what was certified, at least "
        f"{faster_by(answer.upper)}; certify again with 'fstune branch {certified.id} FILE'"
    )
    now = with_expiry(store, store.campaign(certified.id)).recommendation
    assert now is not None
    assert now.notes == (message, *answer.notes)
    assert (now.expired, reason(certified)) == ("", "")
    assert caveat(store, store.campaign(certified.id)) == message
    document = report_document(SnapshotCache(store), certified.id).recommendation
    assert document is not None
    assert document.notes[0] == message
    # It was another testbed then.
    verified_later(
        certified, as_found(certified) | {"identity": OTHER}, outcome=outcome, interval=interval
    )
    assert with_expiry(store, store.campaign(certified.id)).recommendation == answer


def test_a_verification_says_nothing_about_a_later_answer(certified: Campaign) -> None:
    store = certified.store
    answer = store.campaign(certified.id).recommendation
    verified_later(certified, as_found(certified), interval=LESS)
    assert with_expiry(store, store.campaign(certified.id)).recommendation != answer
    at = datetime.now(UTC) + timedelta(hours=4)
    store.add_event(certified.id, NewEvent(at, "certified", "another trial", {"trial": 7}))
    assert with_expiry(store, store.campaign(certified.id)).recommendation == answer


def test_the_newest_look_counts(certified: Campaign) -> None:
    seen_later(certified, {"identity": OTHER})
    seen_later(certified, as_found(certified), hours=2.0)
    assert reason(certified) == ""


def test_other_testbeds_and_earlier_campaigns_say_nothing(certified: Campaign) -> None:
    seen_later(certified, {"identity": OTHER}, aspect=Aspect("0" * 64, {}))
    seen_later(certified, {"identity": OTHER}, hours=-1.0)
    assert reason(certified) == ""
    # Limits that an older release did not store are not a difference.
    seen_later(certified, {"identity": as_found(certified)["identity"]})
    assert reason(certified) == ""


def test_the_list_of_recommendations_shows_the_gain_that_it_is_sorted_by(
    certified: Campaign,
) -> None:
    store = certified.store
    rows = known_recommendations(store, Filters(), 10)
    assert rows[0].answer.upper is not None
    least = faster_by(rows[0].answer.upper)
    heading, line = printed(rows)
    assert "Gain" in heading
    assert line.startswith(least, heading.index("At least"))
    seen_later(certified, {"identity": OTHER})
    _, line, *_ = printed(known_recommendations(store, Filters(), 10))
    assert "expired" in line
    assert least not in line


def printed(rows: Sequence[KnownRecommendation]) -> list[str]:
    console = Console(file=io.StringIO(), width=200)
    with console.capture() as output:
        show(console, known_page(rows))
    return output.get().splitlines()


def test_expiry_is_reported_wherever_the_answer_is_shown(certified: Campaign) -> None:
    store = certified.store
    seen_later(certified, {"identity": OTHER})
    answer = with_expiry(store, store.campaign(certified.id)).recommendation
    assert answer is not None
    assert answer.notes[0].startswith("expired: ")
    document = report_document(SnapshotCache(store), certified.id)
    assert document.recommendation is not None
    assert document.recommendation.notes[0].startswith("expired: ")
    (row,) = known_recommendations(store, Filters(), 10)
    assert row.expired.startswith("expired: ")


def test_recommendations_are_found_by_what_they_were_measured_on(
    certified: Campaign, store: Store, tmp_path: Path
) -> None:
    mark = fingerprint(as_found(certified))
    fitting = Filters(
        testbed="simulated",
        workload="mixed-use",
        space="openafs-fileserver-1.8",
        version="simul",
        fingerprint=mark,
    )
    (row,) = known_recommendations(store, fitting, 10)
    assert (row.campaign, row.fingerprint) == (certified.id, mark)
    for word in ("testbed", "workload", "space", "version", "fingerprint"):
        others = Filters(**{word: "another"})
        assert known_recommendations(store, others, 10) == []
    (document,) = json.loads(known_json([row]))
    assert document["campaign"] == certified.id
    assert document["recommendation"]["answer"] == "recommended"


def test_expired_ones_come_last(certified: Campaign, begin: Begin) -> None:
    seen_later(certified, {"identity": OTHER})
    other = begin(spec(faster(-0.1), noise=0.005))
    other.run()
    rows = known_recommendations(certified.store, Filters(), 10)
    assert [one.campaign for one in rows] == [other.id, certified.id]


def test_a_list_of_certificates_reads_no_more_than_it_needs(
    certified: Campaign, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two reads say that nothing came later; of what did, a third one reads everything."""
    store = certified.store
    reads = calls_of(monkeypatch, store._database, "read")

    def reads_of_a_list() -> int:
        campaign = store.campaign(certified.id)
        reads()
        with_expiry(store, campaign)
        return reads()

    assert reads_of_a_list() == 2
    now = as_found(certified) | {"identity": OTHER}
    seen_later(certified, now)
    assert reads_of_a_list() == 3
    verified_later(certified, now)
    assert reads_of_a_list() == 3
