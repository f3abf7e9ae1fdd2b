"""Proposals from Optuna's samplers, through ask and tell.

The study lives for one question only: it is rebuilt from what is known each time, so that nothing
of Optuna's has to survive a crash.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence

import optuna

from tuner.propose.encoding import Tunable
from tuner.propose.proposer import Proposal, Told
from tuner.propose.trials import AskTrial, ask, replay

#: So many asks for one proposal before a space counts as exhausted.
_MOST_ASKS = 50


class OptunaProposer:
    """Asks a sampler for valid configurations of all components together."""

    def __init__(
        self,
        tunables: Mapping[str, Tunable],
        name: str,
        sampler: Callable[[int], optuna.samplers.BaseSampler],
        seed: int,
    ) -> None:
        """``sampler``: makes the sampler ``name`` from a seed."""
        self._tunables = tunables
        self._name = name
        self._sampler = sampler
        self._seed = seed

    def propose(self, count: int, known: Sequence[Told]) -> list[Proposal]:
        """See Proposer.propose."""
        study = self._study(known)
        seen = {told.configuration for told in known if not told.prior}
        found: list[Proposal] = []
        for _ in range(_MOST_ASKS * count):
            if len(found) == count:
                break
            trial = study.ask()
            configuration = ask(AskTrial(trial), self._tunables)
            if configuration not in seen:
                seen.add(configuration)
                found.append(Proposal(configuration, self._name))
        return found

    def _study(self, known: Sequence[Told]) -> optuna.Study:
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        # A new seed for each question, the same one for the same question.
        seed = random.Random(f"{self._seed}:propose:{len(known)}").randrange(2**32)
        study = optuna.create_study(direction="minimize", sampler=self._sampler(seed))
        for told in known:
            if told.difference is not None and (trial := self._as_trial(told)) is not None:
                study.add_trial(trial)
        return study

    def _as_trial(self, told: Told) -> optuna.trial.FrozenTrial | None:
        """A finished trial that says what this configuration gave; None for a prior that could not
        be proposed here.
        """
        given = replay(told.configuration, self._tunables)
        if ask(given, self._tunables) != told.configuration and told.prior:
            return None
        return optuna.trial.create_trial(
            params=dict(given.given), distributions=given.distributions, value=told.difference
        )
