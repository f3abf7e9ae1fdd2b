"""The model as an Optuna sampler: valid, better than random, and robust against failures."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable

import numpy as np
import optuna
import pytest
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState, create_trial

from search_spaces import Space
from tests.unit.propose.spaces import CLIENT, FACTS, SERVER, SMALL_CLIENT, SMALL_SERVER, tunables
from tuner.model import Configuration
from tuner.propose.candidates import Candidates
from tuner.propose.samplers.model import ModelSampler
from tuner.propose.trials import ask, distributions, replay

AS_FOUND = {"cache_manager.blocks": 200_000}
BASELINE = Configuration.of(AS_FOUND)
NOISE = 0.05

pytestmark = pytest.mark.slow

Objective = Callable[[optuna.Trial], float]


@pytest.fixture(autouse=True)
def _silent() -> None:
    optuna.logging.set_verbosity(optuna.logging.ERROR)


def model(*spaces: Space, seed: int = 1, logarithmic: bool = True) -> ModelSampler:
    return ModelSampler(
        *(spaces or (SMALL_SERVER, SMALL_CLIENT)),
        facts=FACTS,
        baseline=AS_FOUND,
        seed=seed,
        logarithmic=logarithmic,
    )


def truth(configuration: Configuration) -> float:
    """Return the log time: best at 100 threads with 8 daemons or more."""
    values = configuration.as_dict()
    threads = values.get("fileserver.threads")
    daemons = values.get("cache_manager.daemons")
    assert threads is None or isinstance(threads, int)
    assert daemons is None or isinstance(daemons, int)
    change = 0.0 if threads is None else -0.3 + 0.15 * abs(math.log(threads / 100.0))
    return change - 0.1 * (daemons is not None and daemons >= 8)


def seconds(sampler: ModelSampler, noise: float = NOISE) -> Objective:
    """Return an objective that measures the truth in seconds."""

    def measure(trial: optuna.Trial) -> float:
        configuration = sampler.suggest(trial)
        chance = random.Random(f"noise:{trial.number}")
        return 10.0 * math.exp(truth(configuration) + chance.gauss(0.0, noise))

    return measure


def study_of(sampler: optuna.samplers.BaseSampler, *, maximize: bool = False) -> optuna.Study:
    direction = StudyDirection.MAXIMIZE if maximize else StudyDirection.MINIMIZE
    return optuna.create_study(direction=direction, sampler=sampler)


def configuration(sampler: ModelSampler, trial: FrozenTrial) -> Configuration:
    result = sampler._configuration(trial)
    assert result is not None
    return result


def of_all(sampler: ModelSampler, study: optuna.Study) -> list[Configuration]:
    return [configuration(sampler, trial) for trial in study.trials]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_it_finds_the_best_sooner_than_random_search(seed: int) -> None:
    """By the mean of the last ten of forty noisy trials, and by the best at the end."""
    sampler = model(seed=seed)
    study = study_of(sampler)
    study.optimize(seconds(sampler), n_trials=40)
    chance = optuna.samplers.RandomSampler(seed=seed)
    other = study_of(chance)
    other.optimize(seconds(sampler), n_trials=40)

    def late(of: optuna.Study) -> float:
        return sum(truth(each) for each in of_all(sampler, of)[-10:]) / 10

    assert late(study) < late(other) - 0.1
    assert truth(sampler.best(study).configuration) < -0.33
    assert sampler.best(study).gain > 0.25


def test_maximising_a_rate_is_like_minimising_a_time() -> None:
    sampler = model()
    times, rates = study_of(sampler), study_of(model(), maximize=True)
    measure = seconds(sampler)
    times.optimize(measure, n_trials=12)
    rates.optimize(lambda trial: 1.0 / measure(trial), n_trials=12)
    assert of_all(sampler, times) == of_all(sampler, rates)


def test_values_may_have_any_sign_and_scale() -> None:
    sampler = model(logarithmic=False)
    study = study_of(sampler)

    def measure(trial: optuna.Trial) -> float:
        return 1e6 * (truth(sampler.suggest(trial)) + 0.1) - 3e5

    study.optimize(measure, n_trials=40)
    assert truth(sampler.best(study).configuration) < -0.33


@pytest.mark.slow
@pytest.mark.parametrize("penalty", [1e4, 1e6])
def test_values_far_from_all_others_do_no_harm(penalty: float) -> None:
    """Many users return a penalty for what does not work."""
    sampler = model(logarithmic=False)
    study = study_of(sampler)
    rng = np.random.default_rng(0)

    def measure(trial: optuna.Trial) -> float:
        threads = sampler.suggest(trial).as_dict().get("fileserver.threads")
        noise = 0.5 * rng.standard_normal()
        return penalty if isinstance(threads, int) and threads < 40 else 10.0 + noise

    study.optimize(measure, n_trials=30)
    assert study.best_value < 11.0


def test_a_value_without_a_logarithm_is_refused() -> None:
    sampler = model()
    study = study_of(sampler)
    trial = study.ask()
    sampler.suggest(trial)
    study.tell(trial, 0.0)
    with pytest.raises(ValueError, match="trial 0: 0 has no logarithm"):
        sampler.suggest(study.ask())


def test_every_configuration_is_valid_on_the_complete_spaces() -> None:
    sampler = model(SERVER, CLIENT)
    study = study_of(sampler)
    study.optimize(seconds(sampler), n_trials=15)
    configurations = of_all(sampler, study)
    assert configurations[0] == BASELINE
    assert len(set(configurations)) > 10
    for each in configurations:
        for space in (SERVER, CLIENT):
            assert space.violations(each.part(space.part), FACTS) == []
    # A parameter's value is asked for only if the parameter is set.
    for trial in study.trials:
        whether = {n.removesuffix("?") for n, v in trial.params.items() if n.endswith("?") and v}
        values = {n for n in trial.params if not n.endswith("?")}
        assert values <= whether
    unset = [
        sum("fileserver.threads" not in each.as_dict() for each in configurations),
        len(configurations),
    ]
    assert 0 < unset[0] < unset[1]


def test_the_answers_lead_to_the_configuration() -> None:
    parts = tunables()
    every = distributions(parts)
    for each in Candidates(parts, "1").random(200):
        answers = replay(each, parts)
        assert ask(answers, parts) == each
        assert answers.faithful
        assert answers.distributions.items() <= every.items()


def test_same_seed_same_trials() -> None:
    def run(seed: int) -> list[dict[str, object]]:
        sampler = model(seed=seed)
        study = study_of(sampler)
        study.optimize(seconds(sampler), n_trials=8)
        return [trial.params for trial in study.trials]

    assert run(1) == run(1) != run(2)


def test_several_at_once_are_different() -> None:
    sampler = model()
    study = study_of(sampler)
    study.optimize(seconds(sampler), n_trials=20)
    trials = [study.ask() for _ in range(4)]
    together = [sampler.suggest(trial) for trial in trials]
    assert len(set(together)) == 4
    for trial, each in zip(reversed(trials), reversed(together), strict=True):
        study.tell(trial, 10.0 * math.exp(truth(each)))
    assert len(study.trials) == 24
    sampler.suggest(study.ask())


def test_what_fails_is_avoided() -> None:
    """No server starts with more than 60 threads, where the optimum would be."""
    sampler = model()
    study = study_of(sampler)

    def measure(trial: optuna.Trial) -> float:
        threads = sampler.suggest(trial).as_dict().get("fileserver.threads", 0)
        assert isinstance(threads, int)
        if threads > 60:
            raise RuntimeError("does not start")
        return seconds(sampler)(trial)

    study.optimize(measure, n_trials=40, catch=RuntimeError)
    failed = [trial.state is TrialState.FAIL for trial in study.trials]
    assert any(failed)
    assert sum(failed[-20:]) <= 0.5 * 20
    threads = sampler.best(study).configuration.as_dict().get("fileserver.threads", 0)
    assert isinstance(threads, int)
    assert threads <= 60


def test_pruned_trials_count_by_how_far_they_were_behind() -> None:
    """Trials that are worse at their first report are pruned, in a study whose reports have another
    scale than its values.
    """
    sampler = model()
    study = study_of(sampler)

    def measure(trial: optuna.Trial) -> float:
        log = truth(sampler.suggest(trial))
        trial.report(2.0 * math.exp(log), step=1)
        if trial.number > 3 and log > -0.3:
            raise optuna.TrialPruned
        return 10.0 * math.exp(log)

    study.optimize(measure, n_trials=30)
    pruned = [trial for trial in study.trials if trial.state is TrialState.PRUNED]
    assert pruned
    values = sampler._values(study.direction, study.get_trials())
    for trial in study.trials:
        expected = math.log(10.0) + truth(configuration(sampler, trial))
        assert values[trial.number] == pytest.approx(expected, abs=1e-9)
    before = [configuration(sampler, trial) for trial in pruned]
    assert len(set(before)) == len(before), "one that was pruned is not proposed again"
    assert truth(sampler.best(study).configuration) < -0.33


def test_a_trial_pruned_where_no_other_reported_only_excludes_its_configuration() -> None:
    sampler = model()
    study = study_of(sampler)
    trial = study.ask()
    sampler.suggest(trial)
    trial.report(1.0, step=7)
    study.tell(trial, state=TrialState.PRUNED)
    assert sampler._values(study.direction, study.get_trials()) == {}
    assert sampler.suggest(study.ask()) != BASELINE


def test_trials_of_other_samplers_are_used_if_possible() -> None:
    sampler = model()
    study = study_of(sampler)
    study.add_trial(create_trial(value=5.0))  # of an unknown configuration
    fast = replay(Configuration.of({"fileserver.threads": 100, **AS_FOUND}), sampler._tunables)
    ask(fast, sampler._tunables)
    parameters, ranges = dict(fast.parameters), fast.distributions
    study.add_trial(create_trial(params=parameters, distributions=ranges, value=7.0))
    study.enqueue_trial({"fileserver.threads?": True, "fileserver.threads": 32})
    study.optimize(seconds(sampler), n_trials=1)
    assert sampler._configuration(study.trials[0]) is None
    queued = configuration(sampler, study.trials[2])
    assert queued.as_dict()["fileserver.threads"] == 32
    results = sampler._results(study)
    assert len(results) == 2


def test_other_parameters_are_drawn_at_random() -> None:
    sampler = model()
    study = study_of(sampler)
    values = []

    def measure(trial: optuna.Trial) -> float:
        values.append(trial.suggest_float("own", 0.0, 1.0))
        return seconds(sampler)(trial)

    study.optimize(measure, n_trials=6)
    assert len(set(values)) == 6


def test_bad_arguments() -> None:
    with pytest.raises(ValueError, match="at least one search space"):
        ModelSampler()
    with pytest.raises(ValueError, match="two search spaces are for the fileserver"):
        ModelSampler(SMALL_SERVER, SERVER)
    several = optuna.create_study(directions=["minimize", "minimize"], sampler=model())
    with pytest.raises(ValueError, match="multi-objective"):
        model().suggest(several.ask())


def test_a_proposal_takes_no_longer_for_many_trials() -> None:
    """Twenty times the trials take less than five times as long: the model does not grow."""
    sampler = model(SERVER, CLIENT)
    parts = sampler._tunables

    def seconds_for(count: int) -> float:
        study = study_of(sampler)
        for number, each in enumerate(Candidates(parts, "many").random(count)):
            answers = replay(each, parts)
            ask(answers, parts)
            value = 10.0 * math.exp(random.Random(number).gauss(0.0, 0.1))
            parameters = dict(answers.parameters)
            study.add_trial(
                create_trial(params=parameters, distributions=answers.distributions, value=value)
            )
        sampler.suggest(study.ask())  # reads the trials for the first time
        began = time.process_time()
        for _ in range(3):
            sampler.suggest(study.ask())
        return time.process_time() - began

    assert seconds_for(1000) < 5.0 * seconds_for(50)
