"""The hours of a testbed: when it may be used, and from when on again."""

from __future__ import annotations

import time as clock
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from pathlib import Path

import pytest

from tuner.errors import ConflictError
from tuner.measure.workload import load_workload
from tuner.services.hours import HoursSection, outside_hours, within
from tuner.services.openafs.assembly import usual_requirements
from tuner.services.openafs.hosts import HostsTestbed
from tuner.services.openafs.testbed_file import read_testbed

FILE = read_testbed(Path(__file__).parents[3] / "data" / "testbeds" / "everything.yaml")


@dataclass(frozen=True)
class Span:
    start: str
    end: str

    def section(self) -> HoursSection:
        return HoursSection.model_validate({"start": self.start, "end": self.end})


DAY, NIGHT, ALWAYS = Span("08:00", "17:00"), Span("20:00", "06:00"), Span("00:00", "00:00")


@pytest.mark.parametrize(
    ("span", "inside", "outside"),
    [
        (DAY, ["08:00", "16:59"], ["07:59", "17:00", "23:00"]),
        (NIGHT, ["20:00", "23:59", "00:00", "05:59"], ["06:00", "19:59"]),
        (ALWAYS, ["00:00", "12:00", "23:59"], []),
    ],
)
def test_hours_may_go_over_midnight(span: Span, inside: list[str], outside: list[str]) -> None:
    hours = span.section()
    assert all(within(hours, time.fromisoformat(now)) for now in inside)
    assert not any(within(hours, time.fromisoformat(now)) for now in outside)


@pytest.mark.parametrize(
    ("span", "now", "until"),
    [
        (DAY, "2026-03-01T07:59:59", "2026-03-01T08:00"),
        (DAY, "2026-03-01T17:00", "2026-03-02T08:00"),
        (DAY, "2026-02-28T23:59", "2026-03-01T08:00"),
        (NIGHT, "2026-03-01T06:00", "2026-03-01T20:00"),
    ],
)
def test_a_testbed_may_be_used_again_when_its_hours_start(span: Span, now: str, until: str) -> None:
    file = FILE.model_copy(update={"hours": span.section()})
    closed = outside_hours(file.name, file.hours, datetime.fromisoformat(now).astimezone())
    assert closed is not None
    assert closed.until == datetime.fromisoformat(until).astimezone()
    assert closed.reason == f"outside the hours of testbed {file.name} ({span.start} to {span.end})"


@pytest.fixture
def in_zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Return a function that sets the local time zone."""

    def move(zone: str) -> None:
        monkeypatch.setenv("TZ", zone)
        clock.tzset()

    yield move
    monkeypatch.undo()
    clock.tzset()


#: By zone: noon before the nights of 2026 in which clocks change.
CHANGES = [
    ("Europe/Berlin", "2026-03-28"),
    ("Europe/Berlin", "2026-10-24"),
    ("Europe/London", "2026-03-28"),
    ("Europe/London", "2026-10-24"),
    ("America/New_York", "2026-03-07"),
    ("America/New_York", "2026-10-31"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("zone", "eve"), CHANGES)
def test_hours_start_later_and_within_themselves_when_clocks_change(
    in_zone: Callable[[str], None], zone: str, eve: str
) -> None:
    """For every start, some lengths, and every time from which to wait."""
    in_zone(zone)
    noon = datetime.fromisoformat(f"{eve}T12:00").astimezone(UTC)
    moments = [(noon + timedelta(minutes=10 * n)).astimezone() for n in range(6 * 36)]
    midnight = datetime(2026, 1, 1, tzinfo=UTC)
    for half_hours in range(48):
        start = midnight + timedelta(minutes=30 * half_hours)
        for length_h in (0.5, 1, 4, 12, 23):
            end = start + timedelta(hours=length_h)
            hours = Span(f"{start:%H:%M}", f"{end:%H:%M}").section()
            file = FILE.model_copy(update={"hours": hours})
            for now in moments:
                if (closed := outside_hours(file.name, file.hours, now)) is not None:
                    assert now < closed.until <= now + timedelta(hours=49), (hours, now)
                    assert within(hours, closed.until.astimezone().time()), (hours, now)


@pytest.mark.parametrize(
    ("zone", "start", "now", "until"),
    [
        ("Europe/Berlin", "02:00", "2026-03-29T01:00+01:00", "2026-03-29T03:00+02:00"),
        ("Europe/Berlin", "02:00", "2026-03-28T12:00+01:00", "2026-03-29T03:00+02:00"),
        # The clock does not show it that day: they start with the first time that it shows.
        ("Europe/Berlin", "02:30", "2026-03-29T01:59+01:00", "2026-03-29T03:00+02:00"),
        ("Europe/Berlin", "02:30", "2026-03-28T12:00+01:00", "2026-03-29T03:00+02:00"),
        ("America/New_York", "02:59", "2026-03-08T01:59-05:00", "2026-03-08T03:00-04:00"),
        ("Europe/Berlin", "02:30", "2026-10-24T12:00+02:00", "2026-10-25T02:30+02:00"),
        # It was open until clocks went back.
        ("Europe/Berlin", "02:30", "2026-10-25T02:10+01:00", "2026-10-25T02:30+01:00"),
        ("Europe/London", "01:00", "2026-03-29T00:59+00:00", "2026-03-29T02:00+01:00"),
        ("America/New_York", "02:00", "2026-03-08T01:59-05:00", "2026-03-08T03:00-04:00"),
    ],
)
def test_hours_that_start_when_clocks_change(
    in_zone: Callable[[str], None], zone: str, start: str, now: str, until: str
) -> None:
    in_zone(zone)
    file = FILE.model_copy(update={"hours": Span(start, "06:00").section()})
    closed = outside_hours(file.name, file.hours, datetime.fromisoformat(now).astimezone())
    assert closed is not None
    assert closed.until == datetime.fromisoformat(until)


def test_a_testbed_without_hours_may_always_be_used() -> None:
    noon = datetime.fromisoformat("2026-03-01T12:00").astimezone()
    assert outside_hours("x", None, noon) is None
    assert outside_hours("x", ALWAYS.section(), noon) is None


def test_a_testbed_is_not_opened_outside_its_hours(tmp_path: Path) -> None:
    """Its hosts do not exist: nothing connects to them."""
    start = datetime.now().astimezone() + timedelta(hours=2)
    hours = Span(f"{start:%H:%M}", f"{start + timedelta(hours=1):%H:%M}").section()
    file = FILE.model_copy(update={"hours": hours})
    testbed = HostsTestbed(file, tmp_path, tmp_path, usual_requirements("afsd.fuse"))
    with pytest.raises(ConflictError, match="outside the hours of testbed spare fileserver"):
        testbed.open(load_workload("mixed-use"), lambda message: None)
