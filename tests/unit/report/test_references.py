"""What is shown in addition to the answer: references and individual clients."""

from __future__ import annotations

import json
import math

from tests.unit.report.samples import RECOMMENDED, campaign, printed
from tuner.records.comparison import Comparison
from tuner.records.estimate import Estimate
from tuner.records.numbers import Numbers
from tuner.report.recommendation_document import (
    RecommendationDocument,
    recommendation_document,
    recommendation_page,
)
from tuner.report.references import clients_text, comparison_sentence
from tuner.report.summary import Effort, campaign_summary
from tuner.report.tables import campaign_page

DISK = Comparison("local-disk", "as found", Estimate(1.8, 1.62, 2.01), 12, 1, True)
SLOW = Comparison("[red]nfs", "as recommended", Estimate(143.2, 0.0, math.inf), 2, 4, False)

DISK_SENTENCE = (
    "The service as found takes 1.80 times as long as local-disk "
    "(95% interval 1.62 to 2.01, 12 blocks)."
)


def test_sentences() -> None:
    assert comparison_sentence(DISK) == DISK_SENTENCE
    assert comparison_sentence(SLOW) == (
        "The service as recommended takes 143 times as long as [red]nfs "
        "(95% interval not yet bounded, 2 blocks); 4 clients at once against one; "
        "the reference's cold reads may have come from memory."
    )


def test_every_page_shows_them() -> None:
    c = campaign()
    pages = (
        recommendation_page(c, RECOMMENDED, references=[DISK, SLOW]),
        campaign_page(c, [], [], [], Numbers(), references=[DISK, SLOW]),
        campaign_summary(c, RECOMMENDED, effort=Effort(1, 2, 3), references=[DISK, SLOW]),
    )
    for page in pages:
        text = printed(page)
        assert DISK_SENTENCE in text
        assert "as long as [red]nfs" in text
    assert "Compared with references" not in printed(recommendation_page(c, RECOMMENDED))


def test_the_document_has_numbers_and_words() -> None:
    document = recommendation_document(campaign(), RECOMMENDED, references=[DISK, SLOW])
    disk, slow = json.loads(document.json_text())["references"]
    assert (disk["reference"], disk["ratio"], disk["lower_ratio"]) == ("local-disk", 1.8, 1.62)
    assert disk["text"] == DISK_SENTENCE
    assert (slow["clients"], slow["cold"]) == (4, False)
    assert (slow["lower_ratio"], slow["upper_ratio"]) == (None, None)
    assert RecommendationDocument.model_validate_json(document.json_text()) == document


def test_a_slow_client_stands_out() -> None:
    ratios = {"client1": 0.95, "client2": 1.0, "client3": 1.12}
    assert printed(clients_text(ratios)) == (
        "client1: 5.3% faster than the mean of all client2: like the mean of all "
        "client3: 12.0% slower than the mean of all"
    )
    page = campaign_page(campaign(), [], [], [], Numbers(clients=ratios))
    assert "client3: 12.0% slower" in printed(page)
    assert "Clients" not in printed(campaign_page(campaign(), [], [], [], Numbers()))
