"""The hours during which a testbed may be used. Pure."""

from __future__ import annotations

from datetime import datetime, time, timedelta

from tuner.services.openafs.file import HoursSection, TestbedFile
from tuner.services.testbed import Unavailable


def outside_hours(file: TestbedFile, now: datetime) -> Unavailable | None:
    """Return why a testbed must not be used now, a time with a zone; None if it may be."""
    hours = file.hours
    if hours is None or within(hours, now.time()):
        return None
    reason = f"outside the hours of testbed {file.name} ({span(hours)})"
    return Unavailable(reason, _start(hours, now))


def within(hours: HoursSection, now: time) -> bool:
    """Whether a time of day is within the hours; equal start and end mean all day."""
    if hours.start < hours.end:
        return hours.start <= now < hours.end
    return now >= hours.start or now < hours.end


def span(hours: HoursSection) -> str:
    """Return the hours as text."""
    return f"{hours.start:%H:%M} to {hours.end:%H:%M}"


def _start(hours: HoursSection, now: datetime) -> datetime:
    """Return the next time at which the hours start, by the local clock."""
    day = now.date() if now.time() < hours.start else now.date() + timedelta(days=1)
    return datetime.combine(day, hours.start).astimezone()
