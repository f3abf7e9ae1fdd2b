"""Load by others as part of the model of effects: it explains noise, and takes no credit."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.propose.spaces import small
from tuner.judge.adjustment import scaled
from tuner.model import COVARIATES, Configuration
from tuner.propose.candidates import Candidates
from tuner.propose.effects import EffectsModel, Evidence
from tuner.propose.encoding import Encoding
from tuner.propose.search_trials import Arm, loads

FAST = Configuration.of({"fileserver.threads": 200})
GAIN = -0.12
SEEDS = range(8)


def _is_fast(configuration: Configuration) -> bool:
    threads = configuration.as_dict().get("fileserver.threads")
    return isinstance(threads, int) and threads >= 100


def estimate(seed: int, *, with_load: bool, saved: float = 0.0) -> float:
    """Fit simulated blocks in which other load is most of the noise, and return the estimated
    effect of many threads. ``with_load``: the model gets the load; ``saved``: the load that many
    threads themselves take away, in addition to their own gain.
    """
    parts, rng = small(), np.random.default_rng(seed)
    some = [c for c in dict.fromkeys(Candidates(parts, f"{seed}").random(250)) if c.items]
    encoding = Encoding(parts, Configuration())
    arms = [(-1 if n % 5 == 4 else n, n // 5) for n in range(len(some))]
    fast = np.array([n >= 0 and _is_fast(some[n]) for n, _ in arms])
    load = 0.2 * rng.standard_normal(len(arms)) - saved * fast
    values = GAIN * fast + 0.5 * load + 0.02 * rng.standard_normal(len(arms))
    evidence = Evidence(
        np.array([n for n, _ in arms]),
        np.array([block for _, block in arms]),
        values[:, None],
        load[:, None] if with_load else None,
    )
    model = EffectsModel(encoding, encoding.features(some), evidence, [0.1**2])
    mean, _ = model.outputs[0].predict(model.design(encoding.features([FAST])))
    return float(mean[0])


def test_a_known_load_is_not_taken_for_noise() -> None:
    without, with_it = (
        np.mean([(estimate(seed, with_load=each) - GAIN) ** 2 for seed in SEEDS])
        for each in (False, True)
    )
    assert with_it < 0.3 * without


def test_a_setting_is_credited_with_the_load_that_it_takes_away() -> None:
    """It takes away .3 of the load, each unit of which costs .5."""
    estimates = [estimate(seed, with_load=True, saved=0.3) for seed in SEEDS]
    assert np.mean(estimates) == pytest.approx(GAIN - 0.3 * 0.5, abs=0.03)


def test_loads_are_deviations_within_blocks_and_unknown_ones_are_zero() -> None:
    arms = [
        Arm(0, 0, (0.0,), (0.1, 5.0, None)),
        Arm(1, 0, (0.0,), (0.5, 5.0, None)),
        Arm(2, 0, (0.0,), (None, 5.0, None)),
        Arm(0, 1, (0.0,)),
        Arm(3, 1, (0.0,), (0.7, 5.0, None)),
    ]
    deviations = loads(arms)
    assert deviations is not None
    assert deviations[:, 0].tolist() == pytest.approx([-0.2, 0.2, 0.0, 0.0, 0.0])
    assert deviations.shape == (5, 1)
    assert loads([Arm(0, 0, (0.0,)), Arm(1, 0, (0.0,))]) is None
    assert loads(arms[3:]) is None


def test_covariates_are_scaled_to_comparable_effects() -> None:
    """A processor stolen costs more than one that others use."""
    units = dict(zip(COVARIATES, scaled([1.0] * len(COVARIATES)), strict=True))
    assert units["others_server"] == pytest.approx(0.33)
    assert units["stolen_clients"] == pytest.approx(1.5)
    assert scaled([None]) == (None,)
    assert scaled(()) == ()
