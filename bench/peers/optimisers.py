"""Random search and Optuna's samplers, used through its ask-and-tell interface.

Whether to set a parameter is a separate question, which is how Optuna's users write conditional
parameters. The first trial is the default. A failed run counts as slower than any successful one.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence

import optuna
from optuna.samplers import BaseSampler, CmaEsSampler, NSGAIISampler, RandomSampler, TPESampler

from bench.peers.questions import WHETHER, NamedAsk, configuration, configuration_of, questions
from bench.peers.service import Observation, Service
from search_spaces import Value
from tuner.model import Configuration

#: More trials than any budget here pays for.
_MOST = 100_000
_WORST = 10.0
_PRUNED_REPEATS = 6
_SMALL = ("small-write", "small-read-cold", "small-read-warm", "metadata", "small-delete")


def random_search(service: Service) -> None:
    """A new configuration each time, one run each; the fastest run wins."""
    _repeated(service, RandomSampler(seed=service.seed), 1)


def tpe_1(service: Service) -> None:
    """Tree-structured Parzen estimators; each configuration is measured once."""
    _repeated(service, TPESampler(seed=service.seed), 1)


def tpe_3(service: Service) -> None:
    """The same with the mean of three runs."""
    _repeated(service, TPESampler(seed=service.seed), 3)


def tpe_5(service: Service) -> None:
    """The same with the mean of five runs."""
    _repeated(service, TPESampler(seed=service.seed), 5)


def _repeated(service: Service, sampler: BaseSampler, repeats: int) -> None:
    study = _study(sampler)
    study.enqueue_trial(_default(service))
    for _ in range(_MOST):
        trial = study.ask()
        proposed = configuration_of(service.surface, _Trial(trial))
        trial.set_user_attr("values", proposed.as_dict())
        mean = service.mean(proposed, repeats)
        study.tell(trial, min(mean, _WORST))
        _believe_best(service, study)


def tpe_pruned(service: Service) -> None:
    """TPE with the pruner for noisy evaluations.

    A trial has up to six runs, which are compared with those of the best trial by Wilcoxon's
    signed-rank test; a worse trial is stopped early.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        pruner = optuna.pruners.WilcoxonPruner()
    study = _study(TPESampler(seed=service.seed), pruner)
    study.enqueue_trial(_default(service))
    for _ in range(_MOST):
        trial = study.ask()
        proposed = configuration_of(service.surface, _Trial(trial))
        trial.set_user_attr("values", proposed.as_dict())
        scores: list[float] = []
        for step in range(_PRUNED_REPEATS):
            scores.append(min(service.measure(proposed).score, _WORST))
            trial.report(scores[-1], step)
            if trial.should_prune():
                break
        # As its documentation recommends: report the mean so far, even of a pruned trial.
        study.tell(trial, sum(scores) / len(scores))
        _believe_best(service, study)


def nsga2(service: Service) -> None:
    """NSGA-II with two objectives, small and large files; picks the best weighted mean."""
    sampler = NSGAIISampler(seed=service.seed, population_size=20)
    study = optuna.create_study(directions=["minimize"] * 2, sampler=sampler)
    study.enqueue_trial(_default(service))
    best = _WORST
    for _ in range(_MOST):
        trial = study.ask()
        proposed = configuration_of(service.surface, _Trial(trial))
        run = service.measure(proposed)
        study.tell(trial, _halves(run))
        # Both objectives have the same weight, so the best mean is always on the Pareto front.
        if run.score < best:
            best = run.score
            service.believe(proposed)


def _halves(run: Observation) -> list[float]:
    if run.failed:
        return [_WORST, _WORST]
    small = [log for name, log in run.logs.items() if name in _SMALL]
    large = [log for name, log in run.logs.items() if name not in _SMALL]
    return [sum(half) / max(1, len(half)) for half in (small, large)]


def cmaes(service: Service) -> None:
    """CMA-ES on numbers only: every parameter is set, and a switch is the number 0 or 1."""
    all_questions = questions(service.surface)
    whether = {q.name for q in all_questions if q.name.endswith(WHETHER)}
    values = [q for q in all_questions if q.name not in whether and not q.options]
    switches = sorted(whether - {f"{q.name}{WHETHER}" for q in values})
    study = _study(CmaEsSampler(seed=service.seed))
    for _ in range(_MOST):
        trial = study.ask()
        answers: dict[str, Value] = {}
        for question in values:
            answers[question.name + WHETHER] = True
            answers[question.name] = trial.suggest_int(
                question.name, question.low, question.high, log=question.log
            )
        for name in switches:
            answers[name] = trial.suggest_int(name, 0, 1) == 1
        proposed = configuration(service.surface, answers)
        trial.set_user_attr("values", proposed.as_dict())
        study.tell(trial, min(service.measure(proposed).score, _WORST))
        _believe_best(service, study)


def _study(sampler: BaseSampler, pruner: optuna.pruners.BasePruner | None = None) -> optuna.Study:
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna.create_study(direction="minimize", sampler=sampler, pruner=pruner)


def _believe_best(service: Service, study: optuna.Study) -> None:
    if study.best_value < _WORST and math.isfinite(study.best_value):
        service.believe(Configuration.of(study.best_trial.user_attrs["values"]))


def _default(service: Service) -> dict[str, Value]:
    """Return the answers of the default configuration, which sets nothing."""
    return {q.name: False for q in questions(service.surface) if q.name.endswith(WHETHER)}


class _Trial(NamedAsk):
    """Answers with the suggestions of an Optuna trial."""

    def __init__(self, trial: optuna.Trial) -> None:
        self._trial = trial

    def integer(self, name: str, low: int, high: int, log: bool) -> int:
        """See Ask.integer."""
        return self._trial.suggest_int(self.full_name(name), low, high, log=log)

    def choice(self, name: str, options: Sequence[Value]) -> Value:
        """See Ask.choice."""
        option = self._trial.suggest_categorical(self.full_name(name), tuple(options))
        assert isinstance(option, int | str)
        return option
