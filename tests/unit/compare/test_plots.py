"""Plots draw every value in the right place."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.judge.ministat import summarise
from tuner.report.plots import SYMBOLS, DotPlot, classic_plot

samples = st.lists(
    st.lists(st.integers(-50, 50).map(float), min_size=3, max_size=15), min_size=1, max_size=4
)


def plot_lines(*values: tuple[float, ...], width: int = 21, separate: bool = False) -> list[str]:
    return classic_plot(values, [summarise(v) for v in values], width=width, separate=separate)


def test_one_sample() -> None:
    """Mean 5, median 5, sd 5: the bar spans the whole width."""
    assert plot_lines((0.0, 5.0, 10.0)) == [
        "+---------------------+",
        "|x         x         x|",
        "||_________A_________||",
        "+---------------------+",
    ]


def test_stacks_overlaps_and_bars_of_two() -> None:
    """Worked out by hand: means 4.75 and 3.75, sd 5.5 and 2.5, upper medians 9 and 5, cells 1.1."""
    assert plot_lines((0.0, 0.0, 9.0, 10.0), (0.0, 5.0, 5.0, 5.0), width=11, separate=True) == [
        "+-----------+",
        "|     +     |",
        "| x   +     |",
        "| *   +   xx|",
        "||____A___M||",
        "|  |_AM|    |",
        "+-----------+",
    ]


def test_the_third_symbol_is_not_taken_for_an_overlap() -> None:
    lines = plot_lines((0.0, 4.0, 10.0), (0.0, 6.0, 10.0), (2.0, 2.0, 2.0), width=11)
    cells = "".join(lines[1:4])
    assert cells.count("*") == 3
    assert cells.count("&") == 2


def test_the_tallest_stack_is_whole_whichever_sample_it_belongs_to() -> None:
    tall, flat = (1.0,) * 6 + (9.0,), (0.0, 3.0, 7.0)
    for order in ((tall, flat), (flat, tall)):
        lines = plot_lines(*order)
        assert len(lines) == 2 + 6 + 1
        assert sum(line.count("x") + line.count("+") for line in lines[1:-2]) == 10


@pytest.mark.slow
@given(samples, st.integers(10, 80), st.booleans())
def test_lines_have_their_width_and_values_their_cells(
    values: list[list[float]], width: int, separate: bool
) -> None:
    summaries = [summarise(v) for v in values]
    lines = classic_plot(values, summaries, width=width, separate=separate)
    assert {len(line) for line in lines} == {width + 2}
    bars = len(values) if separate else 1
    dots = "".join(lines[1 : -1 - bars])
    cells = len(dots) - dots.count(" ") - 2 * (len(lines) - 2 - bars)
    if len(values) == 1:
        assert cells == len(values[0])
    else:
        assert max(map(len, values)) <= cells <= sum(map(len, values))


@pytest.mark.slow
@given(samples, st.integers(20, 80))
def test_dots_and_boxes(values: list[list[float]], width: int) -> None:
    plot = DotPlot.of(values, width=width)
    assert (plot.low, plot.high) == (min(map(min, values)), max(map(max, values)))
    for sample, lines in zip(values, plot.lines, strict=True):
        assert {len(line) for line in lines} == {width}
        *dots, box = lines
        assert len(dots) <= 4
        dot_count = "".join(dots).count("●")
        assert len(sample) / plot.per_dot <= dot_count <= len(sample)
        assert box.count("│") == 1
        assert len(box.strip()) == len("".join(box.split()))


def test_a_box_shows_its_quartiles() -> None:
    (lines,) = DotPlot.of([[0.0, 25.0, 50.0, 75.0, 100.0]], width=21).lines
    assert lines[-1] == "├────[━━━━│━━━━]────┤"
    assert lines[0] == "●    ●    ●    ●    ●"


def test_many_values_share_dots() -> None:
    plot = DotPlot.of([[1.0] * 40 + [2.0], [2.0, 2.0, 1.5]], width=20)
    assert plot.per_dot == 10
    assert len(plot.lines[0]) == 5
    assert len(plot.lines[1]) == 2


def test_equal_values_are_one_stack() -> None:
    assert plot_lines((5.0, 5.0, 5.0), width=11)[1:4] == ["|     x     |"] * 3
    assert DotPlot.of([[5.0] * 3], width=11).lines[0][-1].strip() == "│"


def test_more_samples_than_symbols() -> None:
    with pytest.raises(ValueError, match="7 samples"):
        plot_lines(*[(1.0, 2.0, 3.0)] * (len(SYMBOLS) + 1))
