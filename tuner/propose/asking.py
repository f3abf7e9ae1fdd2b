"""Proposals from Optuna's samplers, through its ask-and-tell interface.

A study exists only for one call: it is rebuilt from the observations each time, so that no Optuna
state has to survive a crash.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence

import optuna

from tuner.propose.encoding import Tunable
from tuner.propose.proposer import Observation, Proposal
from tuner.propose.trials import AskTrial, ask, replay

#: Number of asks per proposal after which a space counts as exhausted.
_MOST_ASKS = 50


class OptunaProposer:
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
            trial = study.ask()
            configuration = ask(AskTrial(trial), self._tunables)
            if configuration not in measured_here:
                measured_here.add(configuration)
                proposals.append(Proposal(configuration, self._name))
        return proposals

    def _study(self, observations: Sequence[Observation]) -> optuna.Study:
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        # A different seed for each question, but the same one for the same question.
        seed = random.Random(f"{self._seed}:propose:{len(observations)}").randrange(2**32)
        study = optuna.create_study(direction="minimize", sampler=self._sampler(seed))
        for observation in observations:
            if (
                observation.difference is not None
                and (trial := self._as_trial(observation)) is not None
            ):
                study.add_trial(trial)
        return study

    def _as_trial(self, observation: Observation) -> optuna.trial.FrozenTrial | None:
        """Return a finished trial with this observation; None for a prior that could not be
        proposed here.
        """
        parameters = replay(observation.configuration, self._tunables)
        if ask(parameters, self._tunables) != observation.configuration and observation.prior:
            return None
        return optuna.trial.create_trial(
            params=dict(parameters.parameters),
            distributions=parameters.distributions,
            value=observation.difference,
        )
