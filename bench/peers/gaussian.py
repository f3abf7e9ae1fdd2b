"""Scikit-optimize's Gaussian process with expected improvement, by its ask-and-tell interface."""

from __future__ import annotations

import warnings
from typing import Any

from skopt import Optimizer
from skopt.space import Categorical, Integer

from bench.peers.questions import Question, configuration, questions
from bench.peers.service import Service

#: Runs of each configuration: the model takes about a second for each configuration it has.
_REPEATS = 5
_WORST = 10.0
_RANDOM_AT_FIRST = 15


def gaussian(service: Service) -> None:
    """Fit one model over all questions, whether or not a configuration depends on each.

    The default is measured first. A failure counts as the slowest run so far, as a larger value
    would dominate the model.
    """
    all_questions = questions(service.surface)
    optimizer = Optimizer(
        [_dimension(question) for question in all_questions],
        base_estimator="GP",
        acq_func="EI",
        acq_optimizer="sampling",
        n_initial_points=_RANDOM_AT_FIRST,
        random_state=service.seed,
    )
    best, slowest = _WORST, 0.0
    default = [q.options[0] if q.options else q.low for q in all_questions]
    while True:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about repeated points and about convergence
            answers = optimizer.ask() if optimizer.Xi else default
        answers_by_name = {
            q.name: _plain(answer) for q, answer in zip(all_questions, answers, strict=True)
        }
        proposed = configuration(service.surface, answers_by_name)
        mean = service.mean(proposed, _REPEATS)
        if mean < best:
            best = mean
            service.believe(proposed)
        if mean < _WORST:
            slowest = max(slowest, mean)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            optimizer.tell(answers, min(mean, slowest))


def _dimension(question: Question) -> Any:
    if question.options:
        return Categorical(question.options, name=question.name)
    prior = "log-uniform" if question.log else "uniform"
    return Integer(question.low, question.high, prior=prior, name=question.name)


def _plain(answer: Any) -> Any:
    """Convert an answer from numpy's type to Python's own."""
    return answer.item() if hasattr(answer, "item") else answer
