"""Bars represent their values, and pages respect their console's width and character set."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.text import Text

from tests.unit.report.samples import screen_of
from tuner.records.estimate import Estimate
from tuner.report.drawing import (
    SPINNER,
    Axis,
    Printable,
    encodable,
    paragraph,
    share_bar,
    sparkline,
)

log_units = st.floats(-3.0, 3.0)


@given(log_units, st.floats(0.0, 1.0), st.floats(0.0, 1.0), st.integers(9, 41))
def test_a_bar_has_its_width_one_dot_and_the_right_side(
    d: float, below: float, above: float, width: int
) -> None:
    estimate = Estimate(math.exp(d), math.exp(d - below), math.exp(d + above))
    axis = Axis.around([estimate], width)
    bar = axis.bar(estimate).plain
    assert len(bar) == axis.width
    assert bar.count("●") == 1
    dot = bar.index("●")
    if d <= -axis.reach / 4:
        assert dot > axis.middle
    if d >= axis.reach / 4:
        assert dot < axis.middle
    assert len(axis.heading().plain) <= axis.width or width < 16


def test_an_interval_clear_of_zero_is_drawn_clear_of_zero() -> None:
    estimate = Estimate(1 / 1.1, 1 / 1.15, 1 / 1.05)
    axis = Axis.around([estimate], 41)
    bar = axis.bar(estimate).plain
    assert bar[axis.middle] == "│"
    assert axis.middle < bar.index("├") < bar.index("●") < bar.index("┤")


def test_an_unbounded_interval_runs_off_both_ends() -> None:
    estimate = Estimate(0.95, 0.0, math.inf)
    bar = Axis.around([estimate], 21).bar(estimate).plain
    assert (bar[0], bar[-1]) == ("─", "─")
    assert "├" not in bar
    assert "┤" not in bar


def test_a_trial_without_estimate_shows_the_zero_alone() -> None:
    axis = Axis.around([], 11)
    assert axis.bar(None).plain == "     │     "


@pytest.mark.parametrize(("share", "cells"), [(0.0, 0), (0.001, 1), (0.5, 10), (1.0, 20), (2, 20)])
def test_shares(share: float, cells: int) -> None:
    assert len(share_bar(share, 20)) == cells


def test_a_console_without_unicode_gets_ascii_of_the_same_width() -> None:
    glyphs = f"●━╸╺─├┤│┼…█{SPINNER}é"
    text = screen_of(Printable(Text(glyphs)), encoding="ascii").text.rstrip("\n")
    assert text.isascii()
    assert len(text) == len(glyphs)
    assert screen_of(Printable(Text(glyphs))).text.rstrip("\n") == glyphs
    assert encodable("é●", "iso-8859-1") == "?o"
    assert encodable("é●", "UTF-8") == "é●"


@pytest.mark.parametrize("width", range(12, 50))
def test_a_percent_sign_stays_with_its_number(width: int) -> None:
    lines = screen_of(paragraph("between 8.0% and 12.5% of 100% at most [red]"), width).lines
    assert " ".join(lines) == "between 8.0% and 12.5% of 100% at most [red]"
    assert not any(line.startswith("%") for line in lines)
    assert max(map(len, lines)) <= width


def test_a_sparkline_rises_and_falls_with_its_values() -> None:
    assert sparkline([0.0, 1.0, 0.0], 10) == "▁█▁"
    assert sparkline([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0], 8) == "▁▂▃▄▅▆▇█"
    assert sparkline([5.0, 5.0], 10) == "▁▁"
    assert sparkline([], 10) == ""


def test_a_sparkline_of_many_values_shows_the_means_of_neighbours() -> None:
    values = [0.0] * 50 + [1.0] * 50
    assert sparkline(values, 4) == "▁▁██"
    assert len(sparkline(values, 33)) == 33
    assert encodable(sparkline(values, 4), "ascii") == "__##"
