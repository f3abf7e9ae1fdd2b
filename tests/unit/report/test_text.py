"""How reports write numbers, values and texts from outside."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.judge.words import change, percent
from tuner.model import Configuration
from tuner.records.differences import changes, differences
from tuner.text import (
    clean,
    duration,
    faster,
    interval,
    percent_faster,
    signed,
    signed_interval,
    value_text,
)


@given(st.floats(0.2, 5.0))
def test_percentages_are_those_of_verdicts(ratio: float) -> None:
    d = math.log(ratio)
    number = float(percent(d).rstrip("%"))
    half_a_unit = 0.051 if number < 100 else 0.51
    assert abs(percent_faster(ratio)) == pytest.approx(number, abs=half_a_unit)
    assert faster(ratio) in (change(d), "no change")
    assert (percent_faster(ratio) > 0) == (ratio < 1)


@pytest.mark.parametrize(
    ("ratio", "words", "column"),
    [
        (1 / 1.05, "5.0% faster", "+5.0%"),
        (1.05, "5.0% slower", "-5.0%"),
        (1.0, "no change", "0.0%"),
        (0.99999, "no change", "0.0%"),
        (0.0, "over 1000% faster", "+>1000%"),
        (math.inf, "over 1000% slower", "->1000%"),
    ],
)
def test_a_ratio_in_words(ratio: float, words: str, column: str) -> None:
    assert faster(ratio) == words
    assert signed(ratio) == column


@pytest.mark.parametrize(
    ("lower", "upper", "words", "column"),
    [
        (1 / 1.09, 1 / 1.03, "3.0% to 9.0% faster", "+3.0% to +9.0%"),
        (1.03, 1.09, "3.0% to 9.0% slower", "-9.0% to -3.0%"),
        (1 / 1.04, 1.01, "1.0% slower to 4.0% faster", "-1.0% to +4.0%"),
        (0.0, math.inf, "not yet bounded", "not yet bounded"),
        (0.9, math.inf, "not yet bounded", "not yet bounded"),
    ],
)
def test_an_interval_in_words(lower: float, upper: float, words: str, column: str) -> None:
    assert interval(lower, upper) == words
    assert signed_interval(lower, upper) == column


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-1.0, "0.0 s"),
        (8.44, "8.4 s"),
        (9.97, "10 s"),
        (59.6, "1 min 00 s"),
        (200, "3 min 20 s"),
        (3599.7, "1 h 00 min"),
        (7500, "2 h 05 min"),
        (86399, "1 d 0 h"),
        (100 * 3600, "4 d 4 h"),
    ],
)
def test_a_duration_in_words(seconds: float, words: str) -> None:
    assert duration(seconds) == words


@given(st.text())
def test_a_text_from_outside_is_one_printable_line(text: str) -> None:
    assert clean(text).isprintable()
    assert len(clean(text)) == len(text)


def test_only_what_differs_is_a_difference() -> None:
    old = Configuration.of({"a.same": 1, "a.flag": True, "a.gone": 3, "a.word": "x"})
    new = Configuration.of({"a.same": 1, "a.flag": 1, "a.new": 0, "a.word": "x"})
    changed, equal = differences(old, new)
    assert [(d.name, d.old, d.new) for d in changed] == [
        ("a.flag", True, 1),
        ("a.gone", 3, None),
        ("a.new", None, 0),
    ]
    assert equal == 2
    assert changes(old, new) == "flag=1 gone=not set new=0"


def test_values_are_distinguished_from_unset_ones() -> None:
    assert [value_text(v) for v in (None, True, False, 0, "", "a\x1bb")] == [
        "not set",
        "on",
        "off",
        "0",
        "",
        "a b",
    ]
