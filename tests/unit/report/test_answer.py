"""Answers are shown completely, however narrow the terminal and wide the intervals."""

from __future__ import annotations

import pytest

from tests.unit.report.samples import screen_of
from tuner.model import Answer, ComponentEffect, Configuration, Recommendation, SettingEffect
from tuner.report.answer import components, settings
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


LONG_NAMES = ("cache_manager.chunksize", "fileserver.vhandle_max_cachesize")
MANY = Recommendation(
    answer=Answer.RECOMMENDED,
    reason="certified",
    trial=4,
    configuration=Configuration.of(dict.fromkeys(LONG_NAMES, 4194304)),
    baseline=Configuration(),
    flags={},
    baseline_flags={},
    confidence=0.95,
    blocks=8,
    settings={name: SettingEffect(1 / 1.106, 1 / 1.12, 1 / 1.093) for name in LONG_NAMES},
)


@pytest.mark.parametrize("width", [50, 60, 70, 80, 100])
def test_no_name_and_no_number_of_a_setting_is_broken(width: int) -> None:
    lines = screen_of(settings(MANY), width).lines
    assert max(map(len, lines)) <= width
    words = " ".join(lines).split()
    for name in LONG_NAMES:
        assert name in words
    assert words.count("4194304") == 2
    assert sum("(+9.3% to +12.0%)" in line for line in lines) == 2


@pytest.mark.parametrize("width", [30, 40])
def test_no_name_of_a_component_is_broken(width: int) -> None:
    words = screen_of(components(EFFECTS, 0.95), width).text.split()
    assert set(EFFECTS) <= set(words)
