"""Logs: one line per event, whatever it contains, for programs and for people."""

from __future__ import annotations

import io
import json
import logging

import pytest

from tests.unit.report.samples import AT
from tuner.model import Event
from tuner.report.log import LogForm, LogProgress

MEASURED = Event(7, AT, "measured", "block 3, trial 2: 1.5 s", {"block": 3, "trial": 2})


def lines(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_json_has_the_ids_as_fields() -> None:
    stream = io.StringIO()
    with LogProgress(stream, LogForm.JSON, "20260301-x") as log:
        log.say(MEASURED)
        log.doing("nothing to tell")
    assert lines(stream) == [
        {
            "timestamp": AT.isoformat(),
            "level": "info",
            "event": "measured",
            "campaign": "20260301-x",
            "block": 3,
            "trial": 2,
            "message": "block 3, trial 2: 1.5 s",
            "number": 7,
        }
    ]


def test_for_people_it_is_one_line_without_colours_in_a_file() -> None:
    stream = io.StringIO()
    with LogProgress(stream, LogForm.CONSOLE, "20260301-x") as log:
        log.say(MEASURED)
    (line,) = stream.getvalue().splitlines()
    assert line.startswith(AT.isoformat())
    for words in ("[info", "measured", "campaign=20260301-x", "block=3", "trial=2"):
        assert words in line
    assert "\x1b" not in line


@pytest.mark.parametrize("form", LogForm)
def test_nothing_breaks_a_line(form: LogForm) -> None:
    """Neither control characters from a host nor event data named like one of our fields."""
    stream = io.StringIO()
    names = ("campaign", "event", "kind", "level", "message", "number", "timestamp")
    data = dict.fromkeys(names, "theirs\x1b[2J\n") | {"plain": None}
    with LogProgress(stream, form, "20260301-x") as log:
        log.say(Event(1, AT, "trial-failed", "first\nsecond\x1b[31m", data))
    assert len(stream.getvalue().splitlines()) == 1
    assert "\x1b" not in stream.getvalue()
    if form is LogForm.JSON:
        (line,) = lines(stream)
        assert line["campaign"] == "20260301-x"
        assert line["level"] == "warning"
        assert line["campaign_"] == "theirs [2J "


def test_warnings_of_libraries_go_the_same_way() -> None:
    stream, logger = io.StringIO(), logging.getLogger("tuner.store.database")
    with LogProgress(stream, LogForm.JSON, "20260301-x"):
        logger.warning("%s does not answer", "it")
        logger.info("not of interest")
    logger.warning("after its end")
    (line,) = lines(stream)
    assert (line["level"], line["logger"]) == ("warning", "tuner.store.database")
    assert (line["message"], line["campaign"]) == ("it does not answer", "20260301-x")


def test_a_stream_that_is_closed_ends_no_campaign() -> None:
    stream = io.StringIO()
    with LogProgress(stream, LogForm.JSON, "20260301-x") as log:
        stream.close()
        log.say(MEASURED)
        log.say(MEASURED)
