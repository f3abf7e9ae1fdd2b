"""The recommendation for programs and shells."""

from __future__ import annotations

import json
import math
import shlex
from dataclasses import replace

import pytest

from tests.unit.report.samples import (
    NO_FINALIST,
    NOT_BETTER,
    RECOMMENDED,
    WIDTHS,
    campaign,
    printed,
)
from tuner.model import Recommendation
from tuner.report.recommendation_document import (
    SCHEMA,
    RecommendationDocument,
    recommendation_document,
    recommendation_flags,
    recommendation_page,
)


def test_the_document_holds_the_answer() -> None:
    text = recommendation_document(campaign(), RECOMMENDED, client="afsd.fuse 1.8.9").json_text()
    document = json.loads(text)
    assert document["schema"] == SCHEMA
    assert (document["campaign"], document["answer"]) == ("7f3a2b", "recommended")
    assert document["client"] == "afsd.fuse 1.8.9"
    assert document["configuration"] == RECOMMENDED.configuration.as_dict()
    assert document["baseline"]["cachemanager.memcache"] is True
    improvement = document["improvement"]
    assert improvement["percent"] == pytest.approx(12.4)
    assert improvement["lower_percent"] == pytest.approx(9.8)
    assert improvement["upper_percent"] == pytest.approx(15.1)
    assert improvement["ratio"] == RECOMMENDED.ratio
    assert improvement["largest_compatible_percent"] == pytest.approx(15.1)
    assert document["components"]["write"]["percent"] == pytest.approx(-2.1)
    assert document["components"]["write"]["floor_held"] is True
    assert (document["blocks"], document["e_value"], document["threshold"]) == (8, 85.3, 31.2)
    assert document["why"] is None
    assert text.endswith("}\n")


def test_the_document_says_why() -> None:
    sentences = ["Resends: 90 with the baseline, 12 with it."]
    document = recommendation_document(campaign(), RECOMMENDED, why=sentences)
    assert json.loads(document.json_text())["why"] == sentences


@pytest.mark.parametrize("answer", [RECOMMENDED, NOT_BETTER, NO_FINALIST])
def test_the_document_survives_being_written_and_read(answer: Recommendation) -> None:
    document = recommendation_document(campaign(answer), answer)
    assert RecommendationDocument.model_validate_json(document.json_text()) == document


def test_what_has_no_bound_is_null() -> None:
    answer = replace(NOT_BETTER, largest_compatible_improvement=math.inf, e_value=math.inf)
    document = json.loads(recommendation_document(campaign(answer), answer).json_text())
    assert document["improvement"]["largest_compatible_percent"] is None
    assert document["e_value"] is None
    write = document["components"]["write"]
    assert (write["upper_ratio"], write["lower_percent"], write["upper_percent"]) == (None,) * 3
    assert write["lower_ratio"] == 0.0


def test_options_are_quoted_for_a_shell() -> None:
    options = recommendation_document(campaign(), RECOMMENDED).flags["fileserver"]
    assert options.arguments == ["-p", "64", "-label", "on close"]
    assert shlex.split(options.line) == options.arguments


def test_flags_can_be_pasted() -> None:
    text = recommendation_flags(RECOMMENDED)
    assert text == "# fileserver\n-p 64 -label 'on close'\n# afsd: no options\n"
    options = [line for line in text.splitlines() if not line.startswith("#")]
    assert shlex.split(options[0]) == list(RECOMMENDED.flags["fileserver"])


@pytest.mark.parametrize("answer", [NOT_BETTER, NO_FINALIST])
def test_no_improvement_gives_the_options_in_force(answer: Recommendation) -> None:
    answer = replace(answer, baseline_flags={"fileserver": ("-p", "20"), "afsd": ()})
    assert recommendation_flags(answer).splitlines() == [
        "# no improvement shown; keep these options, which are in force",
        "# fileserver",
        "-p 20",
        "# afsd: no options",
    ]


@pytest.mark.parametrize("width", WIDTHS)
def test_the_page_names_client_and_answer(width: int) -> None:
    page = printed(recommendation_page(campaign(), RECOMMENDED, client="[afsd] 1.8"), width)
    assert "mixed on [red]fs1 campaign 7f3a2b, for [afsd] 1.8" in page
    assert "12.4% faster" in page
    assert "e-value" not in page
    in_numbers = printed(recommendation_page(campaign(), RECOMMENDED, verbose=True), width)
    assert "e-value 85.3, 31.2 needed" in in_numbers
