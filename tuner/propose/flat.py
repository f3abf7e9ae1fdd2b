"""Proposals from samplers that learn only from parameters that every trial has: CMA-ES, NSGA-II.

Every question of the spaces is a whole number in every trial, also where it would not be asked: the
answer is then ignored. The sampler's own state is in Optuna's trials, so each observation goes
through it again, as a trial that is asked for, has these answers, and is told its result.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import ClassVar

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution

from tuner.model import Configuration, Value
from tuner.propose.asking import OptunaProposer
from tuner.propose.encoding import Tunable
from tuner.propose.trials import Replay, ask, distributions


class FlatProposer(OptunaProposer):
    """See OptunaProposer."""

    #: Only the newest ones, since each takes longer the more there are.
    told_range: ClassVar[slice] = slice(-400, None)

    def __init__(
        self,
        tunables: Mapping[str, Tunable],
        name: str,
        sampler: Callable[[int], optuna.samplers.BaseSampler],
        seed: int,
    ) -> None:
        """See OptunaProposer."""
        super().__init__(tunables, name, sampler, seed)
        self._questions = distributions(tunables)
        self._numbers = {key: _as_number(question) for key, question in self._questions.items()}

    def _ask(self, study: optuna.Study) -> Configuration:
        """See OptunaProposer._ask."""
        answers: dict[str, Value] = {}
        for key, number in study.ask(dict(self._numbers)).params.items():
            question = self._questions[key]
            if isinstance(question, CategoricalDistribution):
                choice = question.choices[number]
                assert isinstance(choice, (int, bool, str))
                answers[key] = choice
            else:
                answers[key] = number
        return ask(Replay(answers), self._tunables)

    def _tell(self, study: optuna.Study, answers: Replay, difference: float) -> None:
        """See OptunaProposer._tell."""
        study.enqueue_trial({key: self._number(key, answers.parameters) for key in self._numbers})
        trial = study.ask()
        # The sampler counts the trial in its state only if it is asked for something, which is not
        # needed for answers that are given.
        _ = trial.relative_params
        for key, number in self._numbers.items():
            trial.suggest_int(key, number.low, number.high, log=number.log)
        study.tell(trial, difference)

    def _number(self, key: str, answers: Mapping[str, Value]) -> int:
        question = self._questions[key]
        if isinstance(question, CategoricalDistribution):
            choices = list(question.choices)
            return choices.index(answers.get(key, choices[0]))
        assert isinstance(question, IntDistribution)
        middle = _middle(question)
        return min(max(int(answers.get(key, middle)), question.low), question.high)


def _as_number(question: BaseDistribution) -> IntDistribution:
    if isinstance(question, CategoricalDistribution):
        return IntDistribution(0, len(question.choices) - 1)
    assert isinstance(question, IntDistribution)
    return question


def _middle(question: IntDistribution) -> int:
    """The middle of a range on its own scale, for an answer that does not matter."""
    if question.log:
        return round(math.sqrt(question.low * question.high))
    return (question.low + question.high) // 2
