"""Parallel coordinates: each trial is a line through its values, the best ones highlighted."""

from __future__ import annotations

import re

import pytest

from tuner.model import Configuration, Trial, Value
from tuner.page.parallel_coordinates import parallel_coordinates
from tuner.page.value_axis import ValueAxis
from tuner.records.estimate import Estimate
from tuner.records.parameter_effects import EffectState, Level, ParameterEffect, ParameterEffects
from tuner.states import TrialState

SAME = Estimate(1.0, 1.0, 1.0)
THREADS = ParameterEffect(
    "fileserver.threads",
    None,
    EffectState.CLEAR,
    0.01,
    (Level(8, SAME, 3, 0.0), Level(64, SAME, 3, 1.0), Level(None, SAME, 3, None)),
)
MODE = ParameterEffect(
    "cache_manager.<mode>", "a", EffectState.OPEN, 0.01, (Level("a", SAME, 3, None),)
)
INERT = ParameterEffect(
    "cache_manager.inert", None, EffectState.INERT, 0.01, (Level(1, SAME, 3, 0.5),)
)
EFFECTS = ParameterEffects(3, 3, 9, (THREADS, MODE, INERT), ())


def trial(number: int, threads: Value | None) -> Trial:
    values: dict[str, Value] = {"cache_manager.<mode>": "a"}
    if threads is not None:
        values["fileserver.threads"] = threads
    return Trial(number, Configuration.of(values), 1, "a test", TrialState.RUNNING, {})


TRIALS = [trial(0, None), *(trial(n, 8 + n % 57) for n in range(1, 201))]
#: The higher a trial's number, the faster it looks.
ESTIMATES = {
    n: (Estimate(1.0 - n / 1000, 0.95 - n / 1000, 1.05 - n / 1000), 5) for n in range(1, 201)
}


def test_the_best_trials_stand_out_and_the_rest_is_thinned_out() -> None:
    drawing, text = parallel_coordinates(EFFECTS, TRIALS, ESTIMATES, 200)
    paths = re.findall(r'<polyline points="([^"]+)" class="([^"]+)"><title>([^<]+)', drawing)
    kinds = [kind for _, kind, _ in paths]
    assert kinds.count("path best") == 9
    assert kinds.count("path best leader") == 1
    assert kinds.count("path baseline") == 1
    assert 30 <= kinds.count("path") <= 60
    # The last line drawn covers the others.
    assert kinds[-1] == "path best leader"
    assert paths[-1][2] == "trial 200 +25.0%: threads 37, <mode> a".replace("<", "&lt;").replace(
        ">", "&gt;"
    )
    # Lines go from the score through each parameter that matters, and through no other.
    assert {len(points.split()) for points, _, _ in paths} == {3}
    assert "inert" not in drawing
    assert "the 10 that look best" in text
    assert f"Faint: {kinds.count('path')} others." in text


def test_the_leader_is_drawn_though_others_look_better() -> None:
    drawing, _ = parallel_coordinates(EFFECTS, TRIALS, ESTIMATES, 5)
    assert "trial 5 +0.5%" in drawing
    assert drawing.count('class="path best leader"') == 1


def test_few_blocks_count_less_and_a_twin_of_the_baseline_not_at_all() -> None:
    lucky = {n: (e, 5 if n < 200 else 1) for n, (e, _) in ESTIMATES.items()}
    drawing, _ = parallel_coordinates(EFFECTS, TRIALS, lucky, 0)
    strong = re.findall(r'class="path best"><title>trial (\d+)', drawing)
    assert sorted(map(int, strong)) == list(range(190, 200))
    twin = [*TRIALS[:-1], trial(200, None)]
    assert "trial 200 " not in parallel_coordinates(EFFECTS, twin, ESTIMATES, 0)[0]


def test_there_is_nothing_to_draw_before_anything_is_known() -> None:
    nothing = ParameterEffects(0, 0, 0, (), (), "none")
    assert parallel_coordinates(nothing, TRIALS, ESTIMATES, 0) == ("", "")
    assert parallel_coordinates(EFFECTS, TRIALS[:1], {}, 0) == ("", "")


def test_the_fastest_is_on_the_right_and_values_are_in_order() -> None:
    drawing, _ = parallel_coordinates(EFFECTS, TRIALS[:3], {1: ESTIMATES[1], 2: ESTIMATES[200]}, 2)
    lines = dict(re.findall(r'points="([^"]+)" class="path ?([a-z ]*)"', drawing))
    at = {kind: [float(p.split(",")[0]) for p in points.split()] for points, kind in lines.items()}
    assert at["baseline"][0] < at["best"][0] < at["best leader"][0]
    assert at["best"][1] < at["best leader"][1] < at["baseline"][1]  # 9, 10, not set


@pytest.mark.parametrize(
    ("value", "x"),
    [(8, 8.0), (64, 58.7), (36, 33.3), (1000, 58.7), (False, 83.3), (None, 83.3)],
)
def test_the_position_of_a_value(value: Value | None, x: float) -> None:
    assert ValueAxis.of(THREADS, 0.0, 100.0).x(value) == pytest.approx(x, abs=0.1)


def test_values_outside_the_axis_have_no_position() -> None:
    axis = ValueAxis.of(THREADS, 0.0, 100.0)
    assert axis.x("word") is None
    assert axis.x(True) is None
    assert [value for _, value, _ in axis.labels()] == [8, 64, None]
