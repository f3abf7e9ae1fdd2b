"""Answers are shown completely, however narrow the terminal and wide the intervals."""

from __future__ import annotations

import pytest

from tests.unit.report.samples import screen_of
from tuner.model import ComponentEffect
from tuner.report.answer import components
from tuner.text import signed_interval

EFFECTS = {
    "large-read-cold": ComponentEffect(0.68, 0.366, 2.27, False),
    "small-delete": ComponentEffect(0.71, 0.001, 90.0, False),
    "small-write": ComponentEffect(1.02, 0.98, 1.04, True),
}


@pytest.mark.parametrize("width", range(60, 121, 6))
def test_no_interval_of_a_component_is_cut(width: int) -> None:
    page = screen_of(components(EFFECTS, 0.95), width).text
    assert all(len(line) <= width for line in page.splitlines())
    for name, effect in EFFECTS.items():
        assert name in page
        for word in signed_interval(effect.lower, effect.upper).split():
            assert word in page


def test_bars_are_drawn_where_they_fit() -> None:
    narrow, wide = (screen_of(components(EFFECTS, 0.95), width).text for width in (60, 100))
    assert "●" not in narrow
    assert wide.count("●") == len(EFFECTS)
