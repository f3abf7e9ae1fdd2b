"""Sentences on what changed with the settings: on large, certain changes and on no others."""

from __future__ import annotations

import math
import random

import pytest

from tests.unit.report.samples import NOT_BETTER, RECOMMENDED, campaign, printed
from tests.unit.report.test_diagnostics import Counts, block
from tuner.model import Block, Recommendation
from tuner.records.numbers import Numbers
from tuner.report.recommendation_document import recommendation_page
from tuner.report.tables import campaign_page
from tuner.report.why import median_interval, reasons
from tuner.states import BlockState


def blocks(*pairs: tuple[Counts, Counts]) -> list[Block]:
    return [block(n, (0, base), (3, own)) for n, (base, own) in enumerate(pairs, 1)]


def test_a_large_change_is_reported_with_what_it_means() -> None:
    noise = random.Random(1)
    pairs: list[tuple[Counts, Counts]] = [
        (
            {"server.rx.calls_waited": 1000.0 * noise.uniform(0.8, 1.2), "server.cpu_s": 2.0},
            {"server.rx.calls_waited": 200.0 * noise.uniform(0.8, 1.2), "server.cpu_s": 2.1},
        )
        for _ in range(12)
    ]
    (sentence,) = reasons(blocks(*pairs), 3)
    assert sentence.startswith("Calls that waited for a thread: ")
    assert "% less in 12 blocks)" in sentence
    assert sentence.endswith("every thread of the fileserver is busy. Fewer is better.")


def test_noise_makes_no_sentence() -> None:
    noise = random.Random(2)
    count = 0
    for _ in range(200):
        pairs: list[tuple[Counts, Counts]] = [
            (
                {"rx.resends": 100.0 * noise.lognormvariate(0, 0.5)},
                {"rx.resends": 100.0 * noise.lognormvariate(0, 0.5)},
            )
            for _ in range(12)
        ]
        count += len(reasons(blocks(*pairs), 3))
    assert count <= 4


def test_a_rise_from_zero_is_reported_and_a_negligible_one_is_not() -> None:
    from_nothing: tuple[Counts, Counts] = (
        {"udp.rcvbuf_errors": 0.0},
        {"udp.rcvbuf_errors": 500.0},
    )
    (text,) = reasons(blocks(*[from_nothing] * 8), 3)
    assert text.startswith("Datagrams dropped, receive buffer full: 0 with the baseline, 500 with")
    little: tuple[Counts, Counts] = ({"udp.rcvbuf_errors": 0.0}, {"udp.rcvbuf_errors": 5.0})
    assert reasons(blocks(*[little] * 8), 3) == []


def test_few_or_void_blocks_are_too_few_to_tell() -> None:
    pair: tuple[Counts, Counts] = ({"rx.resends": 10.0}, {"rx.resends": 1000.0})
    assert reasons(blocks(*[pair] * 6), 3) == [
        "Too few blocks measured both to tell: 6 of at least 7."
    ]
    void = [block(n, (0, pair[0]), (3, pair[1]), state=BlockState.VOID) for n in range(9)]
    assert reasons(void, 3) == ["Too few blocks measured both to tell: 0 of at least 7."]
    (sentence,) = reasons(blocks(*[pair] * 7), 3)
    assert sentence.startswith("Packets")
    assert len(reasons(blocks(*[pair] * 7), 3)) == 1


@pytest.mark.parametrize(
    ("answer", "count", "reported"),
    [
        (RECOMMENDED, 7, True),
        (RECOMMENDED, 6, False),
        (NOT_BETTER, 7, False),
        (NOT_BETTER, 6, False),
    ],
)
def test_a_terminal_says_why_only_for_recommendations_with_enough_blocks(
    answer: Recommendation, count: int, reported: bool
) -> None:
    pair: tuple[Counts, Counts] = ({"rx.resends": 10.0}, {"rx.resends": 1000.0})
    sentences = reasons(blocks(*[pair] * count), 3)
    assert len(sentences) == 1
    record = campaign(answer)
    for page in (
        campaign_page(record, [], [], [], Numbers(), why=sentences),
        recommendation_page(record, answer, why=sentences),
    ):
        text = printed(page, 200)
        assert ("Why: what changed" in text) is reported
        assert (sentences[0][:40] in text) is reported


@pytest.mark.parametrize("count", [7, 12, 40])
def test_the_interval_of_a_median_holds_it(count: int) -> None:
    noise = random.Random(count)
    missed = 0
    for _ in range(2000):
        low, high = median_interval([noise.expovariate(1.0) for _ in range(count)])
        missed += not low <= math.log(2.0) <= high
    assert missed <= 0.03 * 2000
