"""Every kind of noise has the specified size and structure, and is reproducible."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from tuner.measure.covariates import covariates
from tuner.model import Configuration
from tuner.services.simulated import Costs, Effect, Load, Noise, Spikes, Wander, World
from tuner.services.simulated.noise import Run

COMPONENTS = ("read", "write")
RUNS = 40


def draw_logs(noise: Noise, blocks: int = 60, seed: int = 1) -> npt.NDArray[np.float64]:
    """Draw log times; shape (blocks, runs, components)."""
    return np.array(
        [
            [noise.draw(Run(seed, str(b), str(t), t), COMPONENTS).logs for t in range(RUNS)]
            for b in range(1, blocks + 1)
        ]
    )


def within(logs: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    centred: npt.NDArray[np.float64] = logs - logs.mean(axis=1, keepdims=True)
    return centred


def test_components_differ_in_noise() -> None:
    logs = draw_logs(Noise(0.1, factors={"write": 2.0}))
    assert logs.std(axis=(0, 1)) == pytest.approx([0.1, 0.2], rel=0.05)
    assert abs(np.corrcoef(logs[..., 0].ravel(), logs[..., 1].ravel())[0, 1]) < 0.06


def test_the_noise_of_an_arm_is_the_same_for_all_components() -> None:
    logs = draw_logs(Noise(0.0, arm=0.1))
    assert (logs[..., 0] == logs[..., 1]).all()
    assert logs[..., 0].std() == pytest.approx(0.1, rel=0.05)


def test_wander_continues_from_run_to_run() -> None:
    logs = draw_logs(Noise(0.0, wander=Wander(0.1, 0.8)))[..., 0]
    assert logs.std() == pytest.approx(0.1, rel=0.1)
    lagged = [np.corrcoef(logs[:, :-k].ravel(), logs[:, k:].ravel())[0, 1] for k in (1, 3)]
    assert lagged == pytest.approx([0.8, 0.8**3], abs=0.06)


def test_spikes_are_as_rare_and_as_high_as_said() -> None:
    logs = draw_logs(Noise(0.0, spikes=Spikes(0.1, 1.0)))
    assert set(np.unique(logs)) == {0.0, np.log(2.0)}
    assert (logs > 0.0).mean() == pytest.approx(0.1, abs=0.02)


def test_drift_is_the_same_for_the_runs_of_a_block() -> None:
    logs = draw_logs(Noise(0.0, drift=0.5), blocks=100)[..., 0]
    assert within(logs) == pytest.approx(0.0, abs=1e-12)
    assert logs[99, 0] - logs[0, 0] == pytest.approx(0.5 * 99 / 100)


def test_load_slows_a_run_by_its_cores_and_is_counted() -> None:
    world = World(
        noise=Noise(0.0, others=Load(0.4, 0.3, 0.6, 0.33), stolen=Load(0.05, 0.05, 0.6, 1.5)),
        costs=Costs(component=3.0),
    )
    runs = [
        world.times(Run(1, str(b), str(t), t), Configuration(), COMPONENTS)
        for b in range(200)
        for t in range(6)
    ]
    total = np.array([run.total_s for run in runs])
    readings = [covariates({**run.diagnostics, "engine_cpu_s": run.cpu_s}) for run in runs]
    stolen = np.array([one["stolen_server"] for one in readings])
    others = np.array([one["others_server"] for one in readings])
    assert (others.mean(), others.std()) == pytest.approx((0.4, 0.3), rel=0.2)
    assert (stolen.mean(), stolen.std()) == pytest.approx((0.05, 0.05), rel=0.2)
    # Nothing else affects the times.
    explained = np.log(6.0) + 0.33 * others + 1.5 * stolen
    assert np.log(total) == pytest.approx(explained, abs=1e-9)


def test_load_continues_from_run_to_run() -> None:
    noise = Noise(0.0, others=Load(0.4, 0.1, 0.6, 1.0))
    logs = draw_logs(noise)[..., 0]
    assert np.corrcoef(logs[:, :-1].ravel(), logs[:, 1:].ravel())[0, 1] == pytest.approx(
        0.6, abs=0.06
    )


def test_the_programs_own_processor_time_follows_the_configuration() -> None:
    world = World(
        (Effect("fileserver.threads", -0.5),), Noise(0.0, others=Load(0.4, 0.0, 0.0, 0.1))
    )
    run = Run(1, "1", "0", 0)
    slow, fast = (
        world.times(run, Configuration.of(values), COMPONENTS)
        for values in ({}, {"fileserver.threads": 9})
    )
    times = [run.diagnostics["server.cpu_s"] for run in (slow, fast)]
    assert times == pytest.approx([2 * 0.3, 2 * 0.3 / 2])


def test_a_world_without_load_counts_nothing() -> None:
    times = World().times(Run(1, "1", "0", 0), Configuration(), COMPONENTS)
    assert (times.diagnostics, times.cpu_s) == ({}, 0.0)


def test_the_same_run_is_drawn_again_and_another_seed_draws_another() -> None:
    noise = Noise(
        0.1,
        0.1,
        0.1,
        {},
        Wander(0.1, 0.5),
        Spikes(0.2, 1.0),
        0.1,
        Load(0.4, 0.3, 0.6, 0.3),
        Load(0.1, 0.1, 0.5, 1.0),
    )
    one = noise.draw(Run(1, "7", "3", 2), COMPONENTS)
    draw_logs(noise, blocks=2)
    assert noise.draw(Run(1, "7", "3", 2), COMPONENTS) == one
    assert noise.draw(Run(2, "7", "3", 2), COMPONENTS).logs != one.logs
    assert noise.draw(Run(1, "8", "3", 2), COMPONENTS).logs != one.logs
