"""Complete campaigns on surfaces: scored against the truth, and reproducible."""

from __future__ import annotations

import io
import itertools
import math
import signal
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from rich.console import Console

from tuner.compose import prepare
from tuner.errors import SpecError
from tuner.model import Answer, Configuration
from tuner.records.standing import Standing
from tuner.report.listing import show
from tuner.report.simulate import study_page
from tuner.services.simulated import SimulatedTestbed
from tuner.simulate import Surface, campaign, load_surface
from tuner.simulate.campaign import HALTED, Point, Result, Settings, run_campaign, specification
from tuner.simulate.study import hours_until_near, middle, regret_at, run_all, summary
from tuner.stop_signals import stop_signals
from tuner.store import Store

pytestmark = pytest.mark.slow

SHORT = Settings(budget_s=350.0, pilot=0, sampler="random")
#: Long enough to measure and to certify, for tests that compare campaigns with each other.
SHORTEST = replace(SHORT, budget_s=120.0)


def write_surface(path: Path, *effects: dict[str, object], **simulated: object) -> Path:
    document = {
        "name": "made",
        "about": "made by a test",
        "spaces": {
            "fileserver": {"name": "openafs-fileserver-1.8", "only": ["threads"]},
            "cache_manager": {"name": "openafs-cache-manager-fuse-1.8", "only": ["daemons"]},
        },
        "statistics": {"floor": "25%"},
        "simulated": {"noise": 0.02, "effects": list(effects), **simulated},
    }
    path.write_text(yaml.safe_dump(document))
    return path


FASTER = {"parameter": "fileserver.threads", "low": 20, "change": -0.3}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_surface(tmp_path_factory.mktemp("surfaces") / "made.yaml", FASTER)


@pytest.fixture(scope="module")
def surface(path: Path) -> Surface:
    return load_surface(str(path))


def test_a_recommendation_is_scored_against_the_truth(surface: Surface) -> None:
    standings: list[Standing] = []
    result = run_campaign(surface, 1, SHORT, standings.append)
    assert result.answer == Answer.RECOMMENDED
    assert result.score == pytest.approx(math.log(0.7))
    assert (result.regret, result.false) == (0.0, False)
    assert result.certified_h is not None
    assert 0.0 < result.certified_h <= result.hours
    assert result.certified[0] == result.curve[0]
    assert result.certified[1].hours == result.certified_h
    assert result.certified[-1].regret == 0.0
    assert 0.0 < result.hours <= SHORT.budget_s / 3600.0 * 1.1
    first, *_, last = result.curve
    assert first.hours == 0.0
    assert first.regret == pytest.approx(-math.log(0.7))
    assert last.regret == 0.0
    assert [point.hours for point in result.curve] == sorted(p.hours for p in result.curve)
    assert standings[-1].elapsed_s == pytest.approx(result.hours * 3600.0)


def test_a_false_certificate_counts_although_a_better_one_follows(surface: Surface) -> None:
    standings: list[Standing] = []
    result = run_campaign(surface, 1, SHORTEST, standings.append)
    configurations = {1: result.configuration, 2: surface.baseline}
    for order, false in (((1,), False), ((2, 1), True), ((1, 2), True)):
        watch = campaign._Watch(surface, configurations.__getitem__, lambda standing: None)
        for trial in order:
            watch.standing(replace(standings[-1], certified=trial))
        assert watch.false is false


def test_a_campaign_that_cannot_continue_has_no_answer(tmp_path: Path) -> None:
    never = {"parameter": "fileserver.threads", "low": 0, "fails": "workload"}
    often = {"parameter": "cache_manager.daemons", "low": 0, "fails": "workload"}
    surface = load_surface(str(write_surface(tmp_path / "bad.yaml", FASTER, never, often)))
    result = run_campaign(surface, 1, SHORT)
    assert result.answer in (HALTED, Answer.NO_IMPROVEMENT)
    assert result.configuration == surface.baseline
    assert (result.certified_h, result.false, result.score) == (None, False, 0.0)


def test_a_campaign_measures_the_world_of_its_surface(surface: Surface, tmp_path: Path) -> None:
    spec = specification(surface, 7, replace(SHORT, noise=0.11))
    testbed = prepare(spec, tmp_path).testbed
    assert isinstance(testbed, SimulatedTestbed)
    expected = replace(surface.world, seed=7, noise=replace(surface.world.noise, component=0.11))
    assert testbed.world == expected
    assert spec.statistics.floor == surface.floor
    assert surface.sampler(7, 0.11).world == expected


def test_settings_that_no_campaign_can_have(surface: Surface) -> None:
    with pytest.raises(SpecError, match=r"search\.sampler: "):
        run_campaign(surface, 1, replace(SHORT, sampler="guess"))
    with pytest.raises(SpecError, match=r"pilot\.blocks: "):
        run_campaign(surface, 1, replace(SHORT, pilot=2))


def test_a_campaign_is_reproducible_in_separate_processes_too(surface: Surface, path: Path) -> None:
    results = list(run_all(surface, str(path), [1, 2], SHORTEST))
    assert all(result.trials > 1 and result.measurements > 10 for result in results)
    assert results[0].curve != results[1].curve
    separate = run_all(surface, str(path), [1, 2], SHORTEST, jobs=2)
    assert sorted(separate, key=lambda result: result.seed) == results


@pytest.mark.parametrize(("call", "completed"), [(1, 0), (2, 1)])
def test_a_stop_while_a_campaign_begins_or_ends_ends_them_all(
    surface: Surface,
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    call: int,
    completed: int,
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    calls = itertools.count(1)  # a campaign voids what was cut off when it begins and when it ends
    real = Store.void_running_blocks

    def void(*arguments: Any) -> None:
        real(*arguments)
        if next(calls) == call:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Store, "void_running_blocks", void)
    results: list[Result] = []
    with stop_signals(), pytest.raises(KeyboardInterrupt):
        results.extend(run_all(surface, str(path), [1, 2, 3], SHORTEST))
    assert len(results) == completed
    assert list(tmp_path.iterdir()) == []


CURVE = (Point(0.0, 0.2), Point(0.1, 0.04), Point(0.2, 0.06), Point(0.3, 0.03), Point(0.4, 0.01))


def test_the_regret_at_any_time_is_that_of_the_last_change() -> None:
    hours = (0.0, 0.05, 0.1, 0.25, 9.0)
    assert [regret_at(CURVE, at) for at in hours] == [0.2, 0.2, 0.04, 0.06, 0.01]


def test_near_the_best_counts_only_if_it_stays_there() -> None:
    assert hours_until_near(CURVE) == 0.3
    assert hours_until_near(CURVE[:3]) is None
    assert hours_until_near((Point(0.0, 0.0),)) == 0.0


def test_the_median_of_times_that_may_never_come() -> None:
    assert middle([1.0, None, 3.0]) == 3.0
    assert middle([1.0, None, None]) is None
    assert middle([1.0, 2.0, None, None]) is None


def result(seed: int, **more: Any) -> Result:
    usual = Result(
        seed=seed,
        answer="recommended",
        configuration=Configuration(),
        score=-0.2,
        regret=0.0,
        certified_h=0.5,
        false=False,
        hours=0.5,
        trials=3,
        blocks=9,
        measurements=30,
        best=Configuration(),
        curve=CURVE,
    )
    return replace(usual, **more)


def test_a_page_has_no_line_without_numbers() -> None:
    """Short campaigns end before the first time at which regret is reported."""
    for hours, line in ((0.5, True), (0.01, False)):
        console = Console(file=io.StringIO(), width=100)
        show(console, study_page(load_surface("needle"), [result(1, hours=hours)]))
        text = console.file.getvalue()  # type: ignore[attr-defined]
        assert ("median regret of what looks best: 0" in text) is line
        assert ("median regret of what looks best" in text) is line


def test_summary() -> None:
    lost = result(2, regret=0.2, certified_h=None, curve=(Point(0.0, 0.2),))
    total = summary([result(1), lost, result(3, false=True, certified_h=0.7, regret=0.1)])
    assert (total.campaigns, total.recommended, total.false, total.near) == (3, 2, 1, 1)
    assert total.regret == pytest.approx(0.1)
    assert (total.certified_h, total.near_h) == (0.7, 0.3)
