"""The hours during which a testbed may be used. Pure."""

from __future__ import annotations

from datetime import datetime, time, timedelta
from itertools import count

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
    """Return the next time at which the hours start, by the local clock.

    When clocks change, a start that the day does not have, or has twice, may lie before ``now`` or
    outside the hours: by ``fold`` it stands for two times.
    """
    starts = (
        datetime.combine(now.date() + timedelta(days), hours.start.replace(fold=fold)).astimezone()
        for days in count()
        for fold in (0, 1)
    )
    return next(start for start in starts if start > now and within(hours, start.time()))
