"""The model of effects: what it recovers from blocks with known truth, and its uncertainty."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from tests.unit.propose.spaces import small, tunables
from tuner.model import Configuration
from tuner.propose import regression
from tuner.propose.candidates import Candidates
from tuner.propose.effects import EffectsModel, Evidence
from tuner.propose.encoding import Encoding, Floats

NOISE = 0.02


def gain(configuration: Configuration) -> float:
    """The truth: many threads make everything .15 log units faster, nothing else matters."""
    threads = configuration.as_dict().get("fileserver.threads")
    return -0.15 if isinstance(threads, int) and threads >= 100 else 0.0


def both(configuration: Configuration) -> float:
    """Faster only if two parameters are both high."""
    values = configuration.as_dict()
    threads, daemons = values.get("fileserver.threads", 0), values.get("cache_manager.daemons", 0)
    assert isinstance(threads, int)
    assert isinstance(daemons, int)
    return -0.3 if threads >= 40 and daemons >= 7 else 0.0


@dataclass
class Simulation:
    encoding: Encoding
    configurations: list[Configuration]
    features: Floats
    model: EffectsModel

    def predict(self, *configurations: Configuration) -> tuple[Floats, Floats]:
        rows = self.encoding.features(configurations)
        indices = [
            self.configurations.index(c) if c in self.configurations else -1 for c in configurations
        ]
        return self.model.outputs[0].predict(self.model.design(rows, indices))


def simulate(
    truth: object = gain,
    blocks: int = 12,
    noise: float = NOISE,
    drift: float = 0.0,
    repeat: int = 0,
    whole: bool = False,
    seed: int = 1,
) -> Simulation:
    """Fit simulated blocks of the baseline and random configurations; ``repeat``: how many of the
    first configurations are repeated in every block.
    """
    assert callable(truth)
    parts = tunables() if whole else small()
    rng = np.random.default_rng(seed)
    some = list(dict.fromkeys(Candidates(parts, f"{seed}").random(5 * blocks)))
    some = [c for c in some if c != Configuration()]
    encoding = Encoding(parts, Configuration())
    arms: list[tuple[int, int]] = []
    for block in range(blocks):
        mine = [*range(repeat), *range(repeat + block * 4, repeat + block * 4 + 4)]
        arms += [(-1, block), *((n, block) for n in mine if n < len(some))]
    levels = drift * rng.standard_normal(blocks)
    values = [
        (truth(some[n]) if n >= 0 else 0.0) + levels[block] + noise * rng.standard_normal()
        for n, block in arms
    ]
    features = encoding.features(some)
    evidence = Evidence(
        np.array([n for n, _ in arms]), np.array([b for _, b in arms]), np.array(values)[:, None]
    )
    model = EffectsModel(encoding, features, evidence, [0.05**2])
    return Simulation(encoding, some, features, model)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_known_effect_is_recovered_within_its_error(seed: int) -> None:
    simulation = simulate(seed=seed)
    fast = [Configuration.of({"fileserver.threads": n}) for n in (150, 250)]
    slow = [Configuration.of({"fileserver.threads": n}) for n in (8, 16)]
    mean, variance = simulation.predict(*fast, *slow)
    truth = np.array([gain(c) for c in (*fast, *slow)])
    assert np.all(np.abs(mean - truth) < 4 * np.sqrt(variance) + 0.02)
    assert mean[:2].max() < -0.09
    assert np.abs(mean[2:]).max() < 0.05


def _error(seed: int, *, components: bool) -> float:
    """Return the error of the estimated effect on the score of a parameter that affects one
    component of seven, with the components as outputs or without them.
    """
    parts, rng = tunables(), np.random.default_rng(seed)
    some = [c for c in dict.fromkeys(Candidates(parts, f"{seed}").random(60)) if len(c.items) > 0]
    encoding = Encoding(parts, Configuration())
    arms = [(-1 if n % 6 == 5 else n, n // 6) for n in range(len(some))]
    weights = np.full(7, 1 / 7)
    logs = 0.1 * rng.standard_normal((len(arms), 7))
    for row, (number, _) in enumerate(arms):
        logs[row, 3] += 2.0 * gain(some[number]) if number >= 0 else 0.0
    values = np.column_stack([logs @ weights, logs])
    noise = [0.1**2 / 7, *[0.1**2] * 7]
    outputs = 8 if components else 1
    evidence = Evidence(
        np.array([n for n, _ in arms]), np.array([b for _, b in arms]), values[:, :outputs]
    )
    model = EffectsModel(
        encoding,
        encoding.features(some),
        evidence,
        noise[:outputs],
        weights.tolist() if components else (),
    )
    rows = model.design(encoding.features([Configuration.of({"fileserver.threads": 200})]))
    return float(model.outputs[0].predict(rows)[0][0]) - 2.0 * -0.15 / 7


@pytest.mark.slow
def test_an_effect_on_one_component_shows_there_before_it_shows_in_the_score() -> None:
    alone, with_components = (
        [_error(seed, components=each) for seed in range(12)] for each in (False, True)
    )
    assert np.square(with_components).mean() < 0.7 * np.square(alone).mean()


def test_noise_is_recovered() -> None:
    noise = simulate(blocks=25).model.outputs[0].noise
    # What the smooth function misses of the step counts as noise.
    assert NOISE**2 / 2 < noise < 2 * NOISE**2


def test_effects_common_to_all_arms_of_a_block_do_not_matter() -> None:
    """Not even if they are ten times the gain of the best configuration."""
    still, drifting = simulate(), simulate(drift=1.5)
    threads = Configuration.of({"fileserver.threads": 200})
    assert drifting.predict(threads)[0] == pytest.approx(still.predict(threads)[0], abs=1e-9)
    assert drifting.model.outputs[0].noise == pytest.approx(still.model.outputs[0].noise)


def test_parameters_without_an_effect_shrink() -> None:
    simulation = simulate(blocks=25)
    of = dict(
        zip(
            (a.name for a in simulation.encoding.axes),
            simulation.model.outputs[0].variances,
            strict=True,
        )
    )
    matters = of.pop("fileserver.threads")
    assert all(matters > 5 * other for other in of.values())
    mean, _ = simulation.predict(Configuration.of({"cache_manager.daemons": 11}))
    assert abs(float(mean[0])) < 0.02


def test_more_blocks_reduce_the_uncertainty() -> None:
    threads = Configuration.of({"fileserver.threads": 200})
    few, many = (float(simulate(blocks=n).predict(threads)[1][0]) for n in (8, 40))
    assert few > 2 * many


def test_a_configuration_that_is_repeated_has_an_effect_of_its_own() -> None:
    special = simulate().configurations[0]

    def truth(configuration: Configuration) -> float:
        return -0.2 if configuration == special else 0.0

    simulation = simulate(truth, blocks=15, repeat=1)
    assert simulation.configurations[0] == special
    assert 0 in simulation.model.repeated
    mean, variance = simulation.predict(special)
    assert float(mean[0]) == pytest.approx(-0.2, abs=0.05)
    assert float(variance[0]) < 0.02**2
    assert simulation.model.outputs[0].own > 0.0


def test_an_interaction_is_found() -> None:
    simulation = simulate(both, blocks=30)
    names = {
        frozenset(simulation.encoding.axes[axis].name for axis in simulation.encoding.pairs[pair])
        for pair in simulation.model.pairs
    }
    assert frozenset({"fileserver.threads", "cache_manager.daemons"}) in names
    mean, _ = simulation.predict(
        Configuration.of({"fileserver.threads": 120, "cache_manager.daemons": 11}),
        Configuration.of({"fileserver.threads": 120}),
        Configuration.of({"cache_manager.daemons": 11}),
    )
    assert mean[0] < -0.2
    assert mean[0] < mean[1] + mean[2] - 0.05


def test_draws_follow_the_posterior() -> None:
    simulation = simulate()
    posterior = simulation.model.outputs[0]
    draws = posterior.draw(np.random.default_rng(1), 4000)
    assert draws.shape == (len(posterior.mean), 4000)
    design = simulation.model.design(simulation.features[:5], range(5))
    mean, variance = posterior.predict(design)
    values = design @ draws
    assert values.mean(axis=1) == pytest.approx(mean, abs=4 * np.sqrt(variance.max() / 4000))
    assert values.var(axis=1) == pytest.approx(variance, rel=0.15, abs=1e-8)


def test_before_any_measurement_the_prior_applies() -> None:
    encoding = Encoding(small(), Configuration())
    nothing = Evidence(np.empty(0, np.int64), np.empty(0, np.int64), np.empty((0, 1)))
    model = EffectsModel(encoding, np.empty((0, encoding.width)), nothing, [0.05**2])
    pairs = range(len(encoding.pairs))
    assert {len(encoding.interaction(np.empty((0, encoding.width)), n)) for n in pairs} == {0}
    rows = encoding.features([Configuration.of({"fileserver.threads": 200})])
    mean, variance = model.outputs[0].predict(model.design(rows))
    assert float(mean[0]) == 0.0
    assert 0.01 < float(variance[0]) ** 0.5 < 0.06


def test_the_fit_uses_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    thread_counts: list[int] = []
    real = regression._inverse

    def inverse(matrix: Floats) -> Floats:
        thread_counts.extend(p["num_threads"] for p in threadpool_info() if p["user_api"] == "blas")
        return real(matrix)

    monkeypatch.setattr(regression, "_inverse", inverse)
    with threadpool_limits(2, user_api="blas"):
        simulate(blocks=3)
    assert set(thread_counts) == {1}
