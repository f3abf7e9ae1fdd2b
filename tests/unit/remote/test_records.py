"""Documents as records: what a report says of them is what it says of the stored ones."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

from tests.unit.report.samples import NO_FINALIST, NOT_BETTER, RECOMMENDED, campaign, printed
from tuner.errors import ServerError
from tuner.model import Recommendation
from tuner.remote.records import (
    read_answer,
    read_campaign,
    read_event,
    read_trial,
    recommendation_of,
)
from tuner.report.recommend import recommendation_document, recommendation_page


@pytest.mark.parametrize(
    "answer",
    [
        RECOMMENDED,
        NOT_BETTER,
        NO_FINALIST,
        replace(NOT_BETTER, upper=math.inf, largest_compatible_improvement=math.inf),
    ],
)
def test_an_answer_reads_the_same(answer: Recommendation) -> None:
    sent = recommendation_document(campaign(), answer, client="afsd.fuse 1.8.9").json_text()
    found = recommendation_of(read_answer(json.loads(sent)))
    assert found.configuration == answer.configuration
    assert found.flags == answer.flags
    pages = [recommendation_page(campaign(), each) for each in (found, answer)]
    assert printed(pages[0], 100) == printed(pages[1], 100)


@pytest.mark.parametrize("document", [None, [], {}, {"number": "x"}, "text", 7])
def test_what_is_no_document_is_the_servers_matter(document: object) -> None:
    for read in (read_campaign, read_trial, read_event):
        with pytest.raises(ServerError, match="not understood"):
            read(document)
