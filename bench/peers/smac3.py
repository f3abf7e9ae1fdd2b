"""SMAC3: random forests, and an intensifier that measures challengers until they lose."""

from __future__ import annotations

import logging
import tempfile
import warnings
from pathlib import Path
from typing import Any

from ConfigSpace import Categorical, ConfigurationSpace, EqualsCondition, Integer
from smac import HyperparameterOptimizationFacade as Facade
from smac import Scenario
from smac.runhistory.dataclasses import TrialInfo, TrialValue
from smac.runhistory.enumerations import StatusType

from bench.peers.questions import Question, configuration, questions
from bench.peers.service import Service
from tuner.model import Configuration

#: About what fits into an hour; the initial design is a quarter of it.
_TRIALS = 400
_WORST = 10.0
#: A tenth of the default: ten times as fast, and no worse in our trials.
_CHALLENGERS = 1000


def smac3(service: Service) -> None:
    """Use its facade for noisy black boxes: up to three runs of each, judged by their mean."""
    logging.disable(logging.WARNING)
    with tempfile.TemporaryDirectory() as place, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scenario = Scenario(
            _space(questions(service.surface), service.seed),
            output_directory=Path(place),
            n_trials=_TRIALS,
            deterministic=False,
            seed=service.seed,
        )
        facade = Facade(
            scenario,
            lambda config, seed=0: 0.0,  # its ask-and-tell interface is used instead
            acquisition_maximizer=Facade.get_acquisition_maximizer(
                scenario, challengers=_CHALLENGERS
            ),
            logging_level=logging.ERROR,
            overwrite=True,
        )
        while True:
            info = facade.ask()
            _measure(service, facade, info)
            incumbents = facade.intensifier.get_incumbents(sort_by="cost")
            if incumbents:
                service.believe(_configuration(service, incumbents[0]))


def _measure(service: Service, facade: Any, info: TrialInfo) -> None:
    run = service.measure(_configuration(service, info.config))
    status = StatusType.CRASHED if run.failed else StatusType.SUCCESS
    facade.tell(info, TrialValue(cost=min(run.score, _WORST), status=status), save=False)


def _configuration(service: Service, config: Any) -> Configuration:
    return configuration(service.surface, {n: _plain(v) for n, v in dict(config).items()})


def _plain(value: Any) -> Any:
    """Convert a value from numpy's type to Python's own."""
    return value.item() if hasattr(value, "item") else value


def _space(all_questions: tuple[Question, ...], seed: int) -> ConfigurationSpace:
    """Return the space of all questions, with values conditional on their parameter being set.

    The default sets nothing.
    """
    space = ConfigurationSpace(seed=seed)
    parameters: dict[str, Any] = {}
    for question in all_questions:
        if question.options:
            parameters[question.name] = Categorical(
                question.name, question.options, default=question.options[0]
            )
        else:
            bounds = (question.low, question.high)
            parameters[question.name] = Integer(question.name, bounds, log=question.log)
    space.add(*parameters.values())
    for name, parameter in parameters.items():
        parent = next(q.parent for q in all_questions if q.name == name)
        if parent in parameters:
            space.add(EqualsCondition(parameter, parameters[parent], True))
    return space
