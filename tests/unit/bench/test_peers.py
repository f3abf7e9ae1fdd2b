"""The race: the cost of a run, what peers see, their beliefs over time, and how they are judged."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import yaml

from bench.peers.irace import survivors
from bench.peers.one_factor import levels
from bench.peers.published import presets
from bench.peers.questions import WHETHER, Question, configuration, questions
from bench.peers.race import (
    BEST,
    FSTUNE,
    HOURS,
    PEERS,
    Row,
    Task,
    read_rows,
    run_task,
    tasks,
    write_rows,
)
from bench.peers.service import OutOfBudget, Service, run_method
from bench.peers.summary import tables
from tuner.model import Configuration
from tuner.simulate import Surface, load_surface

pytestmark = pytest.mark.slow

THREADS = "fileserver.threads"
MANY = Configuration.of({THREADS: 64})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A surface where many threads gain a lot, and with too many the fileserver does not start."""
    document = {
        "name": "small",
        "about": "made by a test",
        "spaces": {
            "fileserver": {"name": "openafs-fileserver-1.8", "only": ["threads"]},
            "cache_manager": {
                "name": "openafs-cache-manager-fuse-1.8",
                "only": ["daemons", "memcache"],
            },
        },
        "statistics": {"floor": "25%"},
        "simulated": {
            "noise": 0.02,
            "costs": {"restart": {"fileserver": 2, "cache_manager": 3}, "workload": 7},
            "effects": [
                {"parameter": THREADS, "low": 20, "change": -0.3},
                {"parameter": THREADS, "low": 200, "fails": "start"},
                {
                    "parameter": "cache_manager.memcache",
                    "value": True,
                    "changes": {"large-read-cold": -0.5, "metadata": 1.0},
                },
            ],
        },
    }
    path = tmp_path / "small.yaml"
    path.write_text(yaml.safe_dump(document))
    return path


@pytest.fixture
def surface(path: Path) -> Surface:
    return load_surface(str(path))


def test_runs_cost_what_they_cost_a_campaign(surface: Surface) -> None:
    service = Service(surface, 1, 3600.0, noise=0.0)
    hours = []
    both = Configuration.of({THREADS: 64, "cache_manager.daemons": 9})
    for one in (surface.baseline, MANY, MANY, both, surface.baseline):
        service.measure(one)
        hours.append(service.hours * 3600.0)
    fast = 7 * 0.7
    assert np.diff([0.0, *hours]) == pytest.approx([7, 2 + fast, fast, 3 + fast, 5 + 7])
    assert service.measure(Configuration.of({THREADS: 250})).failed
    assert service.hours * 3600.0 == pytest.approx(hours[-1] + 2)


def test_what_a_peer_sees_is_the_weighted_mean_of_log_times(surface: Surface) -> None:
    service = Service(surface, 1, 3600.0, noise=0.0)
    base, fast = (service.measure(one).score for one in (surface.baseline, MANY))
    assert fast - base == pytest.approx(surface.truth(MANY).score)
    assert service.mean(MANY, 3) == pytest.approx(fast)
    assert service.mean(Configuration.of({THREADS: 250}), 3) == math.inf


def test_no_run_is_drawn_twice(surface: Surface) -> None:
    service = Service(surface, 1, 3600.0)
    scores = [service.measure(surface.baseline).score for _ in range(30)]
    assert len(set(scores)) == 30
    assert np.std(scores) == pytest.approx(0.02 * 0.418, rel=0.5)


def test_the_hours_end_between_two_runs(surface: Surface) -> None:
    def forever(service: Service) -> None:
        while True:
            service.measure(surface.baseline)

    result = run_method(forever, surface, 1, 100.0, noise=0.0)
    assert result.measurements == 15
    assert result.hours * 3600.0 == pytest.approx(105.0)
    service = Service(surface, 1, 0.0)
    with pytest.raises(OutOfBudget):
        service.measure(surface.baseline)


def test_beliefs_are_judged_by_the_truth(surface: Surface) -> None:
    slower = Configuration.of({"cache_manager.memcache": True})

    def wavering(service: Service) -> None:
        service.believe(surface.baseline)
        for one in (MANY, MANY, slower):
            service.measure(one)
            service.believe(one)

    result = run_method(wavering, surface, 1, 3600.0, noise=0.0)
    gain = -math.log(0.7)
    assert [point.regret for point in result.curve] == pytest.approx([gain, 0.0, gain])
    assert (result.answer, result.false, result.trials) == ("recommended", True, 2)
    assert result.score < 0.0, "it is faster, but breaks a floor"
    assert run_method(lambda service: None, surface, 1, 3600.0).answer == "no_improvement"


def test_questions_are_those_of_drawing_and_answers_are_obeyed(surface: Surface) -> None:
    by_name = {question.name: question for question in questions(surface)}
    assert by_name.keys() == {
        THREADS + WHETHER,
        THREADS,
        "cache_manager.memcache?",
        "cache_manager.daemons?",
        "cache_manager.daemons",
    }
    assert by_name[THREADS] == Question(THREADS, 6, 256, log=True)
    assert by_name[THREADS].parent == THREADS + WHETHER
    assert configuration(surface, {}) == surface.baseline
    answers = {THREADS + WHETHER: True, THREADS: 64, "cache_manager.daemons": 9}
    assert configuration(surface, answers) == MANY


def test_presets_are_valid_and_need_no_risk_that_is_not_allowed() -> None:
    safe, risky = load_surface("sparse-five"), load_surface("cell-quiet")
    jumbo = Configuration.of({"fileserver.jumbograms": True})
    for surface in (safe, risky):
        assert len(presets(surface)) > 5
        assert all(surface.violations(one) == [] for one in presets(surface))
        assert surface.baseline not in presets(surface)
    assert jumbo in presets(risky)
    assert jumbo not in presets(safe)


def test_levels_span_the_range() -> None:
    assert levels(Question("a", 10, 10_000, log=True)) == [10, 100, 1000, 10_000]
    assert levels(Question("a", 2, 11)) == [2, 5, 8, 11]
    assert levels(Question("a", options=("x", "y"))) == ["x", "y"]


def test_candidates_shown_to_be_worse_leave_the_race() -> None:
    alive = [Configuration.of({THREADS: number}) for number in (10, 20, 30)]
    noise = np.random.default_rng(1).normal(0.0, 0.01, (3, 8))
    equal, apart = noise, noise + np.array([[0.0], [0.0], [0.2]])
    assert survivors(alive, equal) == alive
    assert survivors(alive, apart) == alive[:2]
    assert survivors(alive[:2], equal[:2]) == alive[:2]
    assert survivors(alive[:2], apart[1:]) == [alive[0]]


QUICK = [peer.name for peer in PEERS if not peer.slow and peer.name not in (FSTUNE, "CMA-ES")]


@pytest.mark.parametrize("name", QUICK)
def test_peers_find_what_stands_out(path: Path, name: str) -> None:
    task = Task(name, str(path), 0.01, seed=1, budget_s=1800.0)
    (row,) = run_task(task)
    assert 0.4 < row.hours < 0.51 or name == "2011"
    assert row.score < math.log(0.75), "many threads are faster whatever else is set"
    assert [row] == run_task(task), "the same seed, the same run"
    assert row.regrets[-1] == row.regret


def test_fstune_runs_through_the_same_race(path: Path) -> None:
    certified, best = run_task(Task(FSTUNE, str(path), 0.02, seed=1, budget_s=1200.0))
    assert (certified.peer, best.peer) == (FSTUNE, BEST)
    assert certified.measurements == best.measurements > 20
    assert certified.regrets[0] == best.regrets[0], "both begin with the baseline"
    assert certified.recommended == (certified.certified_h is not None)
    assert (certified.false, best.certified_h) == (False, None)
    assert best.near_h is not None
    assert certified.near_h is not None
    assert certified.certified_h is not None
    assert certified.near_h >= certified.certified_h


def test_slow_peers_have_fewer_seeds() -> None:
    runs = tasks(["random", "SMAC3"], ["a", "b"], [0.1], [1, 2, 3], 60.0, slow_seeds=1)
    assert [(t.peer, t.surface, t.seed) for t in runs if t.peer == "SMAC3"] == [
        ("SMAC3", "a", 1),
        ("SMAC3", "b", 1),
    ]
    assert sum(t.peer == "random" for t in runs) == 6


def row(**more: object) -> Row:
    usual: dict[str, object] = {
        "peer": "random",
        "surface": "a",
        "noise": 0.1,
        "seed": 1,
        "gain": -0.2,
        "score": -0.15,
        "regret": 0.05,
        "near_h": None,
        "certified_h": None,
        "recommended": True,
        "false": False,
        "breaks": False,
        "hours": 1.0,
        "trials": 9,
        "measurements": 99,
        "regrets": tuple(round(0.2 - 0.01 * place, 3) for place in range(len(HOURS))),
    }
    return Row(**(usual | more))  # type: ignore[arg-type]


def test_rows_are_read_as_they_were_written(tmp_path: Path) -> None:
    rows = [row(), row(peer=FSTUNE, near_h=0.25, certified_h=0.5, breaks=True), row(seed=2)]
    write_rows(rows, tmp_path / "rows.csv")
    assert read_rows(tmp_path / "rows.csv") == [rows[1], rows[0], rows[2]]
    assert read_rows(tmp_path / "none.csv") == []


def test_tables_average_over_surfaces_with_a_gain_and_count_false_answers() -> None:
    rows = [
        row(),
        row(seed=2, regret=0.01, near_h=0.4, false=True),
        row(surface="b", gain=0.0, score=0.0, regret=0.0, false=True),
        row(surface="b", gain=0.0, score=0.0, regret=0.0, seed=2),
    ]
    text = tables(rows)
    (line,) = [line for line in text.splitlines() if line.startswith("| random ")]
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert cells[:2] == ["random", "4"]
    assert cells[-1] == "50%", "false where there is nothing to find"
    assert cells[cells.index("50%") + 1] == "-", "fewer than half get near the best"
    assert "| a | -0.200 | 0.030 |" in text
