"""Surfaces: their files, their ground truth, and measurements on them."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tuner.errors import ConfigurationError, SpecError, WorkloadError
from tuner.measure.workload_run import run_once
from tuner.model import Configuration, Value
from tuner.services.simulated import SimulatedTestbed
from tuner.simulate import Surface, load_surface, surface_names
from tuner.simulate.best import best_configuration

pytestmark = pytest.mark.slow

SPACES = {
    "fileserver": {
        "name": "openafs-fileserver-1.8",
        "only": ["threads", "callbacks", "udp_buffer"],
    },
    "cache_manager": {
        "name": "openafs-cache-manager-fuse-1.8",
        "only": ["chunksize", "daemons", "memcache", "files", "dcache"],
    },
}
THREADS, CHUNKSIZE = "fileserver.threads", "cache_manager.chunksize"


@pytest.fixture
def make_surface(tmp_path: Path) -> Any:
    """A factory of surfaces with the given effects and other contents of a surface file."""

    def make(*effects: dict[str, object], floor: str = "25%", **simulated: object) -> Surface:
        document = {
            "name": "made",
            "about": "made by a test",
            "spaces": SPACES,
            "statistics": {"floor": floor},
            "simulated": {"effects": list(effects), **simulated},
        }
        path = tmp_path / "made.yaml"
        path.write_text(yaml.safe_dump(document))
        return load_surface(str(path))

    return make


def of(**values: Value) -> Configuration:
    return Configuration.of({name.replace("__", "."): value for name, value in values.items()})


def test_truth_is_weighted_and_relative_to_the_configuration_as_found(make_surface: Any) -> None:
    effect = {"parameter": THREADS, "low": 32, "changes": {"metadata": -0.2, "large-write": 0.1}}
    score, components = make_surface(effect).truth(of(fileserver__threads=64))
    assert components["metadata"] == pytest.approx(math.log(0.8))
    assert components["large-write"] == pytest.approx(math.log(1.1))
    assert score == pytest.approx(0.10 * math.log(0.8) + 0.25 * math.log(1.1))
    tuned = make_surface(effect, found={THREADS: 64})
    assert tuned.truth(of(fileserver__threads=100)).score == 0.0
    assert tuned.truth(Configuration()).score == pytest.approx(-score)


def test_the_best_keeps_the_floor_of_every_component(make_surface: Any) -> None:
    trade = {
        "parameter": CHUNKSIZE,
        "shape": "linear",
        "at": 24,
        "changes": {"large-read-cold": -0.4, "small-read-cold": 0.9},
    }
    best, score = make_surface(trade).best
    # log 1.9 in 6 steps; 2 steps lose 24%, 3 lose 38%.
    assert best == of(cache_manager__chunksize=20)
    assert score == pytest.approx((0.25 * math.log(0.6) + 0.1 * math.log(1.9)) / 3)
    assert best_configuration(make_surface(trade), floor=0.5)[0] == of(cache_manager__chunksize=21)
    assert make_surface(trade, floor="5%").best == (Configuration(), 0.0)


def test_the_best_is_found_although_neither_of_its_changes_gains_alone(make_surface: Any) -> None:
    pair = {"parameter": THREADS, "low": 100, "high": 101, "change": 0.02}
    both = pair | {"change": -0.2, "when": [{"parameter": "cache_manager.daemons", "value": 11}]}
    best, score = make_surface(pair, both).best
    assert best.as_dict()[THREADS] in (100, 101)
    assert best.as_dict()["cache_manager.daemons"] == 11
    assert score == pytest.approx(math.log(1.02) + math.log(0.8))


def test_the_best_moves_parameters_that_bound_it_and_never_fails(make_surface: Any) -> None:
    # There cannot be more dcache entries than chunks, and the default number of chunks is smaller.
    many = {"parameter": "cache_manager.dcache", "low": 30_000, "change": -0.1}
    surface = make_surface(many)
    best, score = surface.best
    assert score == pytest.approx(math.log(0.9))
    assert surface.feasible(best)
    small = {"parameter": CHUNKSIZE, "high": 15, "fails": "workload"}
    files = {"parameter": "cache_manager.files", "low": 20_000, "fails": "start"}
    assert make_surface(many, small, files).best == (Configuration(), 0.0)


def test_infeasible_configurations(make_surface: Any) -> None:
    surface = make_surface(
        {"parameter": THREADS, "low": 100, "fails": "start"},
        {"parameter": CHUNKSIZE, "low": 22, "fails": "workload"},
    )
    assert surface.failure(of(fileserver__threads=128)) == "start"
    assert surface.failure(of(cache_manager__chunksize=22)) == "workload"
    assert not surface.feasible(of(cache_manager__chunksize=22))
    assert surface.feasible(of(fileserver__threads=99, cache_manager__chunksize=21))
    assert not surface.feasible(of(cache_manager__memcache=True, cache_manager__files=9000))


def test_a_sampled_block_costs_its_runs_and_the_restarts_of_changed_parts(
    make_surface: Any,
) -> None:
    surface = make_surface(
        {"parameter": THREADS, "low": 100, "fails": "start"},
        {"parameter": CHUNKSIZE, "low": 22, "fails": "workload"},
        noise=0.0,
        costs={"restart": {"fileserver": 2, "cache_manager": 3}, "workload": 7},
    )
    arms = [
        surface.baseline,
        of(fileserver__threads=20),
        of(fileserver__threads=20, cache_manager__chunksize=19),
        of(fileserver__threads=128),
        surface.baseline,
        of(cache_manager__chunksize=22),
    ]
    sampler = surface.sampler(1)
    runs = sampler.block(1, arms)
    assert [run.failed for run in runs] == ["", "", "", "start", "", "workload"]
    assert [run.restart_s for run in runs] == [0, 2, 3, 2, 2 + 3, 3]
    assert [run.workload_s for run in runs] == pytest.approx([7, 7, 7, 0, 7, 7])
    assert [len(run.seconds) for run in runs] == [7, 7, 7, 0, 7, 0]
    assert sampler.cost_s == pytest.approx(15 + 5 * 7)


def test_a_sampled_run_takes_the_same_time_as_on_the_simulated_testbed(make_surface: Any) -> None:
    surface = make_surface(
        {"parameter": THREADS, "low": 16, "change": -0.1},
        {"parameter": CHUNKSIZE, "low": 22, "fails": "workload"},
        {"parameter": "cache_manager.daemons", "value": 7, "fails": "start"},
        noise=0.05,
        wander={"sd": 0.1, "correlation": 0.5},
        after_restart={"fileserver": 0.25, "cache_manager": -0.1},
    )
    arms = [
        surface.baseline,
        of(fileserver__threads=20),
        of(fileserver__threads=20, cache_manager__daemons=7),
        of(fileserver__threads=30, cache_manager__daemons=7),
        of(fileserver__threads=30),
        of(fileserver__threads=30, cache_manager__chunksize=22),
        surface.baseline,
        surface.baseline,
    ]
    testbed = SimulatedTestbed(surface.spaces, surface.world)
    ready = testbed.open(surface.workload, lambda message: None)

    def measure(block: int, trial: int) -> dict[str, float]:
        """The time of each component, if the run succeeds."""
        try:
            ready.target.apply(arms[trial], lambda message: None)
            report = run_once(ready.engine, f"campaign-{block}-{trial}", 1, ready.make_cold)
        except (ConfigurationError, WorkloadError):
            return {}
        return {name: result.elapsed_s for name, result in report.components.items()}

    sampler = surface.sampler(surface.world.seed)
    for block in (1, 2):
        runs = sampler.block(block, arms)
        assert [run.failed for run in runs] == ["", "", "start", "start", "", "workload", "", ""]
        assert [run.seconds for run in runs] == [measure(block, trial) for trial in range(8)]
    assert sampler.cost_s == pytest.approx(testbed.clock())


def test_a_sampled_block_is_reproducible_and_noise_can_be_replaced(make_surface: Any) -> None:
    surface = make_surface(noise=0.1, others={"mean": 0.3, "sd": 0.2, "effect": 0.3})
    arms = [surface.baseline, of(fileserver__threads=20)]
    one, again = surface.sampler(3), surface.sampler(3)
    again.block(1, arms)
    expected = [run.seconds for run in one.block(2, arms)]
    assert [run.seconds for run in again.block(2, arms)] == expected
    assert [run.seconds for run in surface.sampler(4).block(2, arms)] != expected
    assert {"host.busy_s", "host.steal_s", "engine_cpu_s"} <= one.block(2, arms)[
        0
    ].diagnostics.keys()
    quiet = make_surface(noise=0.1).sampler(3, noise=0.0).block(1, arms)
    assert {s for run in quiet for s in run.seconds.values()} == {1.0}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"about": ""}, "about: "),
        ({"sort": 1}, "sort: unknown key"),
        ({"simulated": {"efects": []}}, "simulated.efects: unknown key; did you mean 'effects'?"),
        (
            {"simulated": {"effects": [{"parameter": "fileserver.treads"}]}},
            "simulated.effects.0: openafs-fileserver-1.8: no parameter 'treads' (did you mean "
            "'threads'?)",
        ),
        (
            {"simulated": {"effects": [{"parameter": "threads"}]}},
            "simulated.effects.0: no parameter 'threads'; write fileserver.NAME",
        ),
        (
            {"simulated": {"found": {THREADS: 2}}},
            "simulated.found: fileserver: threads: 2 is below 6",
        ),
        (
            {
                "simulated": {
                    "found": {THREADS: 50},
                    "effects": [{"parameter": THREADS, "low": 20, "fails": "start"}],
                }
            },
            "simulated.effects: the configuration as found fails (start)",
        ),
        ({"workload": "mixed-us"}, "mixed-us"),
    ],
)
def test_a_bad_surface_file_is_reported_in_one_line(
    tmp_path: Path, change: dict[str, object], message: str
) -> None:
    path = tmp_path / "wrong.yaml"
    good = {"name": "a", "about": "b", "spaces": SPACES, "simulated": {}}
    path.write_text(yaml.safe_dump(good | change))
    with pytest.raises(SpecError, match=re.escape(message)) as problem:
        load_surface(str(path))
    assert str(problem.value).startswith(f"{path}: ")
    assert "\n" not in str(problem.value)


def test_a_surface_is_named_or_a_path(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="no surface 'sparse-fve'; did you mean 'sparse-five'"):
        load_surface("sparse-fve")
    with pytest.raises(SpecError, match="there is no such surface file"):
        load_surface(str(tmp_path / "none.yaml"))


@pytest.mark.parametrize("name", surface_names())
def test_the_surfaces_of_the_repository_are_as_described(name: str) -> None:
    surface = load_surface(name)
    assert surface.name == name
    best, score = surface.best
    assert surface.feasible(best)
    assert surface.truth(best).keeps(surface.floor)
    assert surface.regret(best) == 0.0
    if name.startswith("nothing"):
        assert (best, score) == (Configuration(), 0.0)
    else:
        assert score < -0.05
    # An arm with restarts of both parts takes about 8.5 s.
    (run,) = surface.sampler(1, noise=0.0).block(
        1, [of(fileserver__callbacks=90_000, cache_manager__stat=4000)]
    )
    assert run.cost_s == pytest.approx(8.5, rel=0.35)


def test_the_best_is_found_beyond_what_two_changes_reach() -> None:
    """A large dcache gains, but is valid only with other settings that change too."""
    surface = load_surface("sparse-five")
    best, score = surface.best
    assert int(best.as_dict()["cache_manager.dcache"]) >= 20_000
    assert surface.feasible(best)
    assert score < -0.2


@pytest.mark.parametrize("name", ["trade-off", "two-trade-offs"])
def test_a_trade_off_gains_more_if_the_floor_is_broken(name: str) -> None:
    surface = load_surface(name)
    free, score = best_configuration(surface, floor=9.0)
    assert score < surface.best[1] - 0.02
    assert not surface.truth(free).keeps(surface.floor)


def test_there_are_at_least_a_dozen_surfaces() -> None:
    assert len(surface_names()) >= 12
