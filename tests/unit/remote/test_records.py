"""Records read from documents: reports of them equal those of the stored records."""

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
from tuner.report.json_documents import campaign_document
from tuner.report.recommendation_document import recommendation_document, recommendation_page
from tuner.states import CampaignState
from tuner.time_use import TimeUse


@pytest.mark.parametrize(
    "answer",
    [
        RECOMMENDED,
        NOT_BETTER,
        NO_FINALIST,
        replace(NOT_BETTER, upper=math.inf, largest_compatible_improvement=math.inf),
    ],
)
def test_a_report_of_an_answer_is_the_same(answer: Recommendation) -> None:
    document = recommendation_document(campaign(), answer, client="afsd.fuse 1.8.9").json_text()
    recommendation = recommendation_of(read_answer(json.loads(document)))
    assert recommendation.configuration == answer.configuration
    assert recommendation.flags == answer.flags
    pages = [recommendation_page(campaign(), each) for each in (recommendation, answer)]
    assert printed(pages[0], 100) == printed(pages[1], 100)


@pytest.mark.parametrize("document", [None, [], {}, {"number": "x"}, "text", 7])
def test_an_invalid_document_is_a_server_error(document: object) -> None:
    for read in (read_campaign, read_trial, read_event):
        with pytest.raises(ServerError, match="not understood"):
            read(document)


def test_a_server_does_not_say_how_long_a_running_campaign_took() -> None:
    running = replace(campaign(None, state=CampaignState.RUNNING), time_use=TimeUse())
    document = campaign_document(running)
    assert document["wall_s"] is None
    assert campaign_document(replace(running, state=CampaignState.CREATED))["wall_s"] == 0.0
    took = replace(running, time_use=TimeUse(wall_s=5.0))
    assert campaign_document(took)["wall_s"] == 5.0
