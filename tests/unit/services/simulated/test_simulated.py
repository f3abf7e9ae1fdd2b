"""The simulated testbed: it has the specified ground truth, and runs in virtual time."""

from __future__ import annotations

import math
import statistics

import pytest

import search_spaces
from tuner.errors import ConfigurationError, TestbedError, WorkloadError
from tuner.measure.references import ReferencePlan
from tuner.measure.workload import load_workload
from tuner.measure.workload_run import run_once
from tuner.model import Configuration, Value
from tuner.services.simulated import Effect, Noise, SimulatedTestbed, World
from tuner.services.testbed import ReadyTestbed

WORKLOAD = load_workload("mixed-use")
SPACES = {
    "fileserver": search_spaces.load("openafs-fileserver-1.8"),
    "cache_manager": search_spaces.load("openafs-cache-manager-fuse-1.8"),
}
MANY = Configuration.of({"fileserver.threads": 100})


def open_testbed(
    *effects: Effect, initial: dict[str, Value] | None = None, **world: float
) -> tuple[SimulatedTestbed, ReadyTestbed]:
    noise = Noise(world.get("noise", 0.014), world.get("block_noise", 0.0))
    testbed = SimulatedTestbed(SPACES, World(effects, noise, int(world.get("seed", 1))), initial)
    return testbed, testbed.open(WORKLOAD, lambda message: None)


def log_time(
    ready: ReadyTestbed, block: int, trial: int, component: str = "metadata", *, seed: int = 1
) -> float:
    report = run_once(ready.engine, f"campaign-{block}-{trial}", seed, ready.make_cold)
    return math.log(report.components[component].elapsed_s)


@pytest.mark.parametrize(
    ("effect", "value", "holds"),
    [
        (Effect("fileserver.threads", low=64), 64, True),
        (Effect("fileserver.threads", low=64), 63, False),
        (Effect("fileserver.threads", high=8), 9, False),
        (Effect("fileserver.threads", value=16), 16, True),
        (Effect("fileserver.threads", value=1), True, False),
        (Effect("fileserver.threads"), None, False),
        (Effect("fileserver.threads", low=0), "word", False),
    ],
)
def test_when_an_effect_holds(effect: Effect, value: Value | None, holds: bool) -> None:
    settings = {} if value is None else {"fileserver.threads": value}
    assert effect.holds(Configuration.of(settings)) is holds


def test_without_noise_times_are_the_truth() -> None:
    effect = Effect("fileserver.threads", change=-0.2, components=("metadata",))
    _, ready = open_testbed(effect, noise=0.0)
    assert log_time(ready, 1, 0) == 0.0
    ready.target.apply(MANY, lambda doing: None)
    assert log_time(ready, 1, 1) == pytest.approx(math.log(0.8))
    assert log_time(ready, 1, 1, "large-write") == 0.0


def test_noise_is_as_large_as_said() -> None:
    _, ready = open_testbed(noise=0.05)
    times = [log_time(ready, block, 0) for block in range(400)]
    assert statistics.stdev(times) == pytest.approx(0.05, rel=0.15)
    assert statistics.fmean(times) == pytest.approx(0.0, abs=0.01)


def test_pairing_removes_the_noise_of_a_block() -> None:
    _, ready = open_testbed(noise=0.0, block_noise=0.3)
    for block in range(5):
        assert log_time(ready, block, 0) == log_time(ready, block, 1)
    assert len({log_time(ready, block, 0) for block in range(5)}) == 5


def test_the_same_run_is_drawn_again() -> None:
    once, again = open_testbed(noise=0.05)[1], open_testbed(noise=0.05)[1]
    log_time(again, 9, 9)
    # It does not depend on the seed of the files.
    assert log_time(once, 3, 2, seed=5) == log_time(again, 3, 2, seed=6)
    assert log_time(once, 3, 2) != log_time(open_testbed(noise=0.05, seed=2)[1], 3, 2)


def test_time_passes_in_restarts_and_runs_only() -> None:
    testbed, ready = open_testbed(noise=0.0)
    assert testbed.clock() == 0.0
    ready.target.apply(Configuration(), lambda doing: None)
    assert testbed.clock() == 0.0
    assert ready.target.apply(MANY, lambda doing: None).actions == ("fileserver restart",)
    assert testbed.clock() == 1.0
    log_time(ready, 1, 1)
    assert testbed.clock() == pytest.approx(1.0 + len(WORKLOAD.components))


def test_the_first_run_after_a_restart_may_take_longer() -> None:
    world = World(noise=Noise(0.0), after_restart={"fileserver": 0.1})
    references = (ReferencePlan("local", "/srv/local"),)
    testbed = SimulatedTestbed(SPACES, world, references=references)
    ready = testbed.open(WORKLOAD, lambda message: None)
    assert log_time(ready, 1, 0) == 0.0
    ready.target.apply(MANY, lambda what: None)
    (reference,) = ready.references
    untuned = run_once(reference.engine, "campaign-1-1", 1, ready.make_cold)
    assert untuned.components["metadata"].elapsed_s == 1.0
    assert log_time(ready, 1, 1) == pytest.approx(math.log(1.1))
    assert log_time(ready, 1, 2) == 0.0
    ready.target.apply(MANY, lambda what: None, {"cache_manager"})
    assert log_time(ready, 1, 3) == 0.0
    ready.target.apply(MANY, lambda what: None, {"fileserver"})
    assert log_time(ready, 1, 4) == pytest.approx(math.log(1.1))


def test_failures_name_their_parameter_and_require_a_restart() -> None:
    testbed, ready = open_testbed(
        Effect("fileserver.threads", low=64, fails="start"),
        Effect("cache_manager.daemons", value=7, fails="workload"),
    )
    with pytest.raises(ConfigurationError, match=r"fileserver\.threads"):
        ready.target.apply(MANY, lambda doing: None)
    # After a failed start, even the original settings must be applied again.
    assert ready.target.apply(Configuration(), lambda doing: None).actions == (
        "fileserver restart",
    )
    ready.target.apply(Configuration.of({"cache_manager.daemons": 7}), lambda doing: None)
    with pytest.raises(WorkloadError, match=r"cache_manager\.daemons"):
        log_time(ready, 1, 1)
    assert testbed.settings.as_dict() == {"cache_manager.daemons": 7}


def test_restoring_brings_back_what_was_found() -> None:
    initial: dict[str, Value] = {"fileserver.threads": 12}
    testbed, ready = open_testbed(initial=initial)
    assert ready.target.baseline.as_dict() == initial
    ready.target.apply(MANY, lambda doing: None)
    assert len(ready.target.restore(lambda doing: None)) == 2
    assert testbed.settings.as_dict() == initial
    assert testbed.close() is None
    assert testbed.claim("some") is False


def test_the_clock_never_exceeds_ten_years() -> None:
    testbed, ready = open_testbed(noise=10.0, block_noise=10.0)
    before_s = testbed.clock()

    def years() -> None:
        for block in range(1, 100):
            log_time(ready, block, 1)

    with pytest.raises(TestbedError, match="takes longer than ten years; give it less noise"):
        years()
    assert before_s <= testbed.clock() < 1e9
