"""Proposals from samplers that learn only from parameters that every trial has: CMA-ES, NSGA-II.

Every question of the spaces is a whole number in every trial, also where it would not be asked: the
answer is then ignored. The sampler's own state is in Optuna's trials, so each observation goes
through it again, as a trial that is asked for, has these answers, and is told its result.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution

from tuner.model import Configuration, Value
from tuner.propose.encoding import Tunable
from tuner.propose.proposer import Observation, Proposal
from tuner.propose.trials import Replay, ask, distributions, replay

#: Number of asks per proposal after which a space counts as exhausted.
_MOST_ASKS = 50
#: Only the newest observations are told, since each takes longer the more there are.
_MOST_OBSERVATIONS = 400


class FlatProposer:
    """Asks a sampler for valid configurations of all parts together."""

    def __init__(
        self,
        tunables: Mapping[str, Tunable],
        name: str,
        sampler: Callable[[int], optuna.samplers.BaseSampler],
        seed: int,
    ) -> None:
        """``sampler``: creates the sampler called ``name`` from a seed."""
        self._tunables = tunables
        self._name = name
        self._sampler = sampler
        self._seed = seed
        self._questions = distributions(tunables)
        self._numbers = {key: _as_number(question) for key, question in self._questions.items()}

    def propose(self, count: int, observations: Sequence[Observation]) -> list[Proposal]:
        """See Proposer.propose."""
        study = self._study(observations)
        measured_here = {
            observation.configuration for observation in observations if not observation.prior
        }
        proposals: list[Proposal] = []
        for _ in range(_MOST_ASKS * count):
            if len(proposals) == count:
                break
            configuration = self._configuration(study.ask(dict(self._numbers)).params)
            if configuration not in measured_here:
                measured_here.add(configuration)
                proposals.append(Proposal(configuration, self._name))
        return proposals

    def _study(self, observations: Sequence[Observation]) -> optuna.Study:
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        # A different seed for each question, but the same one for the same question.
        seed = random.Random(f"{self._seed}:propose:{len(observations)}").randrange(2**32)
        study = optuna.create_study(direction="minimize", sampler=self._sampler(seed))
        for observation in observations[-_MOST_OBSERVATIONS:]:
            answers = self._answers(observation)
            if observation.difference is not None and answers is not None:
                study.enqueue_trial(answers)
                trial = study.ask()
                # The sampler counts the trial in its state only if it is asked for something, which
                # is not needed for answers that are given.
                _ = trial.relative_params
                for key, number in self._numbers.items():
                    trial.suggest_int(key, number.low, number.high, log=number.log)
                study.tell(trial, observation.difference)
        return study

    def _configuration(self, numbers: Mapping[str, int]) -> Configuration:
        answers: dict[str, Value] = {}
        for key, number in numbers.items():
            question = self._questions[key]
            if isinstance(question, CategoricalDistribution):
                choice = question.choices[number]
                assert isinstance(choice, (int, bool, str))
                answers[key] = choice
            else:
                answers[key] = number
        return ask(Replay(answers), self._tunables)

    def _answers(self, observation: Observation) -> dict[str, int] | None:
        """Return the numbers that lead to a configuration; None for a prior that could not be
        proposed here.
        """
        replayed = replay(observation.configuration, self._tunables)
        if ask(replayed, self._tunables) != observation.configuration and observation.prior:
            return None
        return {key: self._number(key, replayed.parameters) for key in self._questions}

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
