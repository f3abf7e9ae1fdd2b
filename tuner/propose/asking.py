"""Proposals from Optuna's samplers, through its ask-and-tell interface.

A study exists only for one call: it is rebuilt from the observations each time, so that no Optuna
state has to survive a crash.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

import optuna

from tuner.model import Configuration
from tuner.propose.encoding import Tunable
from tuner.propose.proposer import Observation, Proposal
from tuner.propose.trials import AskTrial, Replay, ask, replay

#: Number of asks in a row without anything new after which a space counts as exhausted.
_MOST_ASKS = 50


class OptunaProposer:
    """Asks a sampler for valid configurations of all parts together."""

    #: Which of the observations are told.
    told_range: ClassVar[slice] = slice(None)

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

    def propose(self, count: int, observations: Sequence[Observation]) -> list[Proposal]:
        """See Proposer.propose."""
        study = self._study(observations)
        measured_here = {
            observation.configuration for observation in observations if not observation.prior
        }
        proposals: list[Proposal] = []
        repeats = 0
        while len(proposals) < count and repeats < _MOST_ASKS:
            configuration = self._ask(study)
            repeats += 1
            if configuration not in measured_here:
                measured_here.add(configuration)
                proposals.append(Proposal(configuration, self._name))
                repeats = 0
        return proposals

    def _study(self, observations: Sequence[Observation]) -> optuna.Study:
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        # A different seed for each question, but the same one for the same question.
        seed = random.Random(f"{self._seed}:propose:{len(observations)}").randrange(2**32)
        study = optuna.create_study(direction="minimize", sampler=self._sampler(seed))
        for observation in observations[self.told_range]:
            if observation.difference is None:
                continue
            answers = replay(observation.configuration, self._tunables)
            is_same = ask(answers, self._tunables) == observation.configuration
            # A prior that could not be proposed here would be recorded as something else.
            if is_same or not observation.prior:
                self._tell(study, answers, observation.difference)
        return study

    def _ask(self, study: optuna.Study) -> Configuration:
        """Return the configuration of a new trial."""
        return ask(AskTrial(study.ask()), self._tunables)

    def _tell(self, study: optuna.Study, answers: Replay, difference: float) -> None:
        """Add a finished trial with these answers."""
        trial = optuna.trial.create_trial(
            params=dict(answers.parameters), distributions=answers.distributions, value=difference
        )
        study.add_trial(trial)
