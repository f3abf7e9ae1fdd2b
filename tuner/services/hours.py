"""The hours during which a testbed may be used. Pure."""

from __future__ import annotations

import re
from datetime import datetime, time, timedelta
from itertools import count
from typing import Annotated

from pydantic import BeforeValidator

from tuner.documents import Section
from tuner.services.testbed import Unavailable

#: Without a time zone: the hours are compared with the local clock.
_CLOCK = re.compile(r"([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9])?")


def _clock(value: object) -> object:
    if not isinstance(value, str) or not _CLOCK.fullmatch(value):
        raise ValueError("write a time of day as HH:MM, such as 20:00")
    return value


Clock = Annotated[time, BeforeValidator(_clock)]


class HoursSection(Section):
    """When measuring may begin, by the clock of the machine that runs fstune.

    If ``start`` is later than ``end``, the period includes midnight.
    """

    start: Clock
    end: Clock


def outside_hours(name: str, hours: HoursSection | None, now: datetime) -> Unavailable | None:
    """Return why a testbed must not be used now, a time with a zone; None if it may be.

    ``name``: of the testbed; ``hours``: None for one that may be used at any time.
    """
    if hours is None or within(hours, now.time()):
        return None
    reason = f"outside the hours of testbed {name} ({span(hours)})"
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

    When clocks change, the end of a gap may lie outside the hours.
    """
    days = (now.date() + timedelta(days) for days in count())
    starts = (start for day in days for start in _times(datetime.combine(day, hours.start)))
    return next(start for start in starts if start > now and within(hours, start.time()))


def _times(local: datetime) -> tuple[datetime, datetime]:
    """Return the two times, equal on most days, that the local clock shows ``local``; the end of
    the gap if clocks skip it.
    """
    while local.astimezone().replace(tzinfo=None) != local:
        local += timedelta(minutes=1)
    return local.astimezone(), local.replace(fold=1).astimezone()
