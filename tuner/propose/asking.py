"""Proposals from Optuna's samplers, through ask and tell.

The study lives for one question only: it is rebuilt from what is known each time, so that nothing
of Optuna's has to survive a crash.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution

from search_spaces import answers, draw
from tuner.model import Configuration, Value
from tuner.propose.encoding import Tunable
from tuner.propose.proposer import Proposal, Told

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
            configuration = self._draw(_AskTrial(trial))
            if configuration not in seen:
                seen.add(configuration)
                found.append(Proposal(configuration, self._name))
        return found

    def _draw(self, ask: _AskTrial | _Replay) -> Configuration:
        values: dict[str, Value] = {}
        for component, tunable in self._tunables.items():
            ask.component = component
            drawn = draw(tunable.space, ask, tunable.facts, tunable.found)
            values |= {f"{component}.{name}": value for name, value in drawn.items()}
        return Configuration.of(values)

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
        configuration = told.configuration
        replay = _Replay()
        for component, tunable in self._tunables.items():
            said = answers(tunable.space, configuration.part(component), tunable.facts)
            replay.answers |= {f"{component}.{name}": answer for name, answer in said.items()}
        if self._draw(replay) != configuration and told.prior:
            return None
        return optuna.trial.create_trial(
            params=dict(replay.given), distributions=replay.distributions, value=told.difference
        )


@dataclass(slots=True)
class _AskTrial:
    """Lets an Optuna trial answer the questions of ``draw``."""

    trial: optuna.Trial
    component: str = ""

    def integer(self, name: str, low: int, high: int, log: bool) -> int:
        return self.trial.suggest_int(f"{self.component}.{name}", low, high, log=log)

    def choice(self, name: str, options: Sequence[Value]) -> Value:
        chosen = self.trial.suggest_categorical(f"{self.component}.{name}", tuple(options))
        assert isinstance(chosen, (int, bool, str))
        return chosen


@dataclass(slots=True)
class _Replay:
    """Gives answers prepared beforehand, and notes the distributions that they were drawn from."""

    component: str = ""
    answers: dict[str, Value] = field(default_factory=dict)
    given: dict[str, Value] = field(default_factory=dict)
    distributions: dict[str, BaseDistribution] = field(default_factory=dict)

    def integer(self, name: str, low: int, high: int, log: bool) -> int:
        key = f"{self.component}.{name}"
        value = min(max(int(self.answers.get(key, low)), low), high)
        self.distributions[key] = IntDistribution(low, high, log=log)
        self.given[key] = value
        return value

    def choice(self, name: str, options: Sequence[Value]) -> Value:
        key = f"{self.component}.{name}"
        answer = self.answers.get(key, options[0])
        value = answer if answer in options else options[0]
        self.distributions[key] = CategoricalDistribution(tuple(options))
        self.given[key] = value
        return value
