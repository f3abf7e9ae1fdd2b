"""Effects of parameters, estimated from measurements whose ground truth is known."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
import pytest

from tests.unit.propose.spaces import small
from tuner.model import BASELINE, Configuration, Trial, Value
from tuner.propose.candidates import Candidates
from tuner.records.parameter_effects import EffectState, ParameterEffect, ParameterEffects
from tuner.results import parameter_effects as module
from tuner.results.parameter_effects import parameter_effects
from tuner.states import TrialState

DELTA = 0.05
THREADS, BUFFERS, DAEMONS = "fileserver.threads", "fileserver.dir_buffers", "cache_manager.daemons"
#: Original settings of the host, which are not searched.
ORIGINAL = Configuration.of({"cache_manager.blocks": 200_000})
Truth = Callable[[Mapping[str, Value]], float]


def many_threads(values: Mapping[str, Value]) -> float:
    """Many threads make everything 15% faster in log units, nothing else matters."""
    threads = values.get(THREADS)
    return -0.15 if isinstance(threads, int) and threads >= 60 else 0.0


def together(values: Mapping[str, Value]) -> float:
    """Faster only where two parameters are high together."""
    threads, daemons = values.get(THREADS, 0), values.get(DAEMONS, 0)
    assert isinstance(threads, int)
    assert isinstance(daemons, int)
    return -0.3 if threads >= 40 and daemons >= 7 else 0.0


def measured(
    truth: Truth, blocks: int, noise: float = 0.01, seed: int = 1
) -> tuple[list[Trial], list[dict[int, float]]]:
    """Blocks of the baseline and four configurations drawn at random."""
    rng = np.random.default_rng(seed)
    configurations = [ORIGINAL, *Candidates(small(), f"{seed}").random(4 * blocks)]
    trials = [Trial(n, c, 1, "random", TrialState.RUNNING) for n, c in enumerate(configurations)]
    scored = []
    for block in range(blocks):
        level = rng.standard_normal()
        numbers = [BASELINE, *range(4 * block + 1, min(4 * block + 5, len(trials)))]
        scored.append(
            {
                n: truth(configurations[n].as_dict()) + level + noise * rng.standard_normal()
                for n in numbers
            }
        )
    return trials, scored


def effects_of(truth: Truth, blocks: int, noise: float = 0.01, seed: int = 1) -> ParameterEffects:
    trials, scored = measured(truth, blocks, noise, seed)
    return parameter_effects(small(), trials, scored, (1.0,), DELTA)


def by_name(effects: ParameterEffects) -> dict[str, ParameterEffect]:
    return {effect.name: effect for effect in effects.parameters}


def test_what_matters_is_clear_and_comes_first_and_the_rest_is_inert() -> None:
    effects = effects_of(many_threads, 40)
    assert (effects.blocks, effects.blocks_measured, effects.reason) == (40, 40, "")
    first, *rest = effects.parameters
    assert (first.name, first.standing) == (THREADS, EffectState.CLEAR)
    assert first.strongest.estimate.upper < 1.0
    assert first.strongest.estimate.ratio == pytest.approx(math.exp(-0.15), rel=0.04)
    assert [effect.standing for effect in rest] == [EffectState.INERT] * 2
    assert all(0.0 < effect.resolution <= DELTA for effect in rest)


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.01, 0.05])
def test_intervals_cover_the_truth_as_often_as_claimed(noise: float) -> None:
    """Coverage is 95% for additive truths; at least 90% of this many is within chance."""
    hits, exceeded = [], 0
    for seed in range(12):
        for effect in effects_of(many_threads, 30, noise, seed).parameters:
            base = many_threads({})
            truths = [
                (many_threads({} if v.value is None else {effect.name: v.value}) - base, v)
                for v in effect.levels
                if v.arms
            ]
            # A step is not smooth: close to it the model must be slightly wrong.
            hits += [
                math.log(v.estimate.lower) <= truth <= math.log(v.estimate.upper)
                for truth, v in truths
                if effect.name != THREADS or not isinstance(v.value, int) or v.value > 120
            ]
            exceeded += max(abs(truth) for truth, _ in truths) > math.log1p(effect.resolution)
    assert np.mean(hits) >= 0.9
    assert exceeded <= 2


def test_a_hardly_tried_parameter_is_not_called_inert() -> None:
    """The prior favours small effects; a resolution is what the measurements alone show."""
    few = by_name(effects_of(many_threads, 2, noise=0.05))
    assert few.keys() == {THREADS, BUFFERS, DAEMONS}
    assert all(effect.standing is not EffectState.INERT for effect in few.values())
    assert all(effect.resolution > 0.05 for effect in few.values())


def test_not_set_is_a_level_of_its_own_and_numbers_are_in_order() -> None:
    (effect,) = [e for e in effects_of(many_threads, 40).parameters if e.name == THREADS]
    *numbers, unset = effect.levels
    assert (unset.value, unset.at, effect.baseline) == (None, None, None)
    assert unset.estimate.ratio == 1.0
    places = [level.at for level in numbers if level.at is not None]
    assert (places[0], places[-1]) == (0.0, 1.0)
    assert places == sorted(places)
    assert len(places) == len(numbers) <= 25


def test_an_interaction_of_two_is_reported_as_such() -> None:
    effects = effects_of(together, 60)
    (pair,) = effects.pairs
    assert set(pair.names) == {THREADS, DAEMONS}
    assert pair.estimate.upper < 1.0
    assert effects_of(many_threads, 60).pairs == ()


def test_with_very_many_measurements_blocks_are_sampled_evenly(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trials, scored = measured(many_threads, 40)
    monkeypatch.setattr(module, "MOST_ARMS", 100)
    effects = parameter_effects(small(), trials, scored, (1.0,), DELTA)
    assert (effects.blocks, effects.blocks_measured) == (20, 40)
    assert effects.arms <= 100
    assert by_name(effects)[THREADS].standing is EffectState.CLEAR


def test_the_baseline_alone_shows_no_effects() -> None:
    twin = [Trial(n, Configuration(), 0, "baseline", TrialState.RUNNING) for n in (BASELINE, 1)]
    effects = parameter_effects(small(), twin, [{0: 0.1, 1: 0.2}], (1.0,), DELTA)
    assert effects.parameters == ()
    assert effects.reason == "only the baseline has been measured"
    assert parameter_effects(small(), [], [], (1.0,), DELTA).parameters == ()
