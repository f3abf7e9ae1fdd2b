"""The model of effects as an Optuna sampler, for use in other studies.

A campaign with ``sampler: model`` uses the same ``Search`` directly, since it has information that
a study lacks: blocks, components and their floors.
"""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import optuna
from optuna.distributions import BaseDistribution
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from search_spaces import Space
from tuner.model import BASELINE, Configuration, Value
from tuner.propose.encoding import Tunable
from tuner.propose.objective import Objective
from tuner.propose.prediction import Prediction
from tuner.propose.search import Search
from tuner.propose.search_trials import Arm, SearchTrial
from tuner.propose.trials import AskTrial, Replay, ask, distributions, replay

#: Number of trials treated as one block, which includes the configuration that looks best.
_ROUND = 5
#: Spread that non-logarithmic values are scaled to: about that of log times, as the model expects.
_SPREAD = 0.1
_NORMAL = 1.4826
#: Least spread, relative to the largest distance from the median.
_LEAST_SPREAD = 1e-3


class ModelSampler(optuna.samplers.BaseSampler):
    """Proposes configurations of search spaces by the model of effects.

    The objective gets its configuration from ``suggest``. Its value is a time, a rate or another
    number above 0, of which the model takes the logarithm; with ``logarithmic=False`` any number.
    The first trial of a study is the baseline. Trials count as follows:

    - complete ones are measurements, including repeated ones of the same configuration;
    - a pruned one counts by its last report: its distance from the median of the complete ones is
      its distance from their median report at that step; it is not proposed again;
    - a failed one marks its configuration as not running, and similar ones as likely to fail;
    - those whose configuration this sampler cannot determine are ignored.

    Other parameters that the objective asks for are drawn at random. Only for single-objective
    studies.
    """

    def __init__(
        self,
        *spaces: Space,
        facts: Mapping[str, int] | None = None,
        baseline: Mapping[str, Value] | None = None,
        seed: int | None = None,
        delta: float = 0.02,
        logarithmic: bool = True,
    ) -> None:
        """``facts``: the hosts' limits, by name; missing ones default to the spaces' assumptions.
        ``baseline``: what to compare with, by qualified names (``fileserver.threads``). ``delta``:
        smallest difference worth acting on. Raises ValueError for no space, or two of one part.
        """
        self._tunables: dict[str, Tunable] = {}
        whole = Configuration.of(baseline or {})
        for space in spaces:
            assumed = {name: fact.assumed for name, fact in space.facts.items()}
            part = Tunable(space, assumed | dict(facts or {}), whole.part(space.part))
            if space.part in self._tunables:
                raise ValueError(f"two search spaces are for the {space.part}")
            self._tunables[space.part] = part
        if not self._tunables:
            raise ValueError("name at least one search space")
        self._baseline = whole
        self._seed = random.SystemRandom().randrange(2**32) if seed is None else seed
        self._logarithmic = logarithmic
        least = math.log1p(delta)
        self._objective = Objective(weights=(1.0,), floor=math.inf, tolerance=(least / 4.0, least))
        self._others = optuna.samplers.RandomSampler(self._seed)
        self._questions = distributions(self._tunables)
        self._configurations: dict[tuple[tuple[str, Any], ...], Configuration | None] = {}

    def suggest(self, trial: optuna.Trial) -> Configuration:
        """Return the configuration that a trial is to measure, always a valid one. Its parameters
        become those of the trial.
        """
        return ask(AskTrial(trial), self._tunables)

    def best(self, study: optuna.Study) -> Prediction:
        """Return the configuration that looks best by all trials of a study, measured or not; the
        baseline if nothing looks better. This is a model estimate, not a test. Raises ValueError as
        ``sample_relative`` does.
        """
        return self._search(study, len(study.trials)).best()

    def infer_relative_search_space(
        self, study: optuna.Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        """See BaseSampler; returns every question that may be asked."""
        self._raise_error_if_multi_objective(study)
        return dict(self._questions)

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """See BaseSampler; returns answers to the questions that the next configuration needs.

        Raises ValueError for a value that has no logarithm.
        """
        parameters = replay(self._next(study, trial.number), self._tunables)
        ask(parameters, self._tunables)
        return {
            name: value for name, value in parameters.parameters.items() if name in search_space
        }

    def sample_independent(
        self,
        study: optuna.Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        """See BaseSampler; draws at random."""
        return self._others.sample_independent(study, trial, param_name, param_distribution)

    def reseed_rng(self) -> None:
        """See BaseSampler. Proposals are not affected: each trial has its own seed."""
        self._others.reseed_rng()

    def _next(self, study: optuna.Study, number: int) -> Configuration:
        trials = study.get_trials(deepcopy=False)
        before = [trial for trial in trials if trial.number != number]
        if not before:
            return self._baseline
        running = {
            self._configuration(trial) for trial in before if trial.state is TrialState.RUNNING
        }
        configuration = self._search(study, number).arms(1 + number % _ROUND)
        free = [each for each in configuration if each not in running]
        return (free or configuration or [self._baseline])[-1]

    def _search(self, study: optuna.Study, number: int) -> Search:
        results = self._results(study)
        trials = [SearchTrial(BASELINE, self._baseline)]
        arms = [Arm(BASELINE, 0, (y,)) for y in results.pop(self._baseline, _Result()).values]
        for row, (configuration, each) in enumerate(results.items(), start=1):
            trials.append(SearchTrial(row, configuration, failed=each.failed, out=each.pruned))
            arms += [Arm(row, 0, (y,)) for y in each.values]
        return Search(
            self._tunables,
            self._baseline,
            trials,
            arms,
            self._objective,
            f"{self._seed}:{number}",
            rounds=len(arms) // _ROUND,
        )

    def _results(self, study: optuna.Study) -> dict[Configuration, _Result]:
        """Return the result of each configuration that was measured."""
        trials = study.get_trials(deepcopy=False)
        values = self._values(study.direction, trials)
        by_configuration: defaultdict[Configuration, list[FrozenTrial]] = defaultdict(list)
        for trial in trials:
            if trial.state.is_finished() and (own := self._configuration(trial)) is not None:
                by_configuration[own].append(trial)
        return {
            configuration: _Result(
                tuple(values[t.number] for t in those if t.number in values),
                failed=_all(those, TrialState.FAIL),
                pruned=_all(those, TrialState.FAIL, TrialState.PRUNED),
            )
            for configuration, those in by_configuration.items()
        }

    def _values(self, direction: StudyDirection, trials: Sequence[FrozenTrial]) -> dict[int, float]:
        """Return each trial's value by number, less is better: logarithms, or numbers scaled to a
        similar spread.
        """
        sign = -1.0 if direction is StudyDirection.MAXIMIZE else 1.0
        complete = [t for t in trials if t.state is TrialState.COMPLETE]
        scale = 1.0 if self._logarithmic else _scale([t.value or 0.0 for t in complete])
        values = {t.number: sign * scale * self._number(t, t.value) for t in complete}
        pruned = [t for t in trials if t.state is TrialState.PRUNED and t.intermediate_values]
        middles: dict[int, tuple[float, float] | None] = {}
        for trial in pruned:
            step = max(trial.intermediate_values)
            if step not in middles:
                there = [t for t in complete if step in t.intermediate_values]
                middles[step] = None
                if there:
                    at = [self._number(t, t.intermediate_values[step]) for t in there]
                    middles[step] = median(values[t.number] for t in there), median(at)
            if (middle := middles[step]) is not None:
                at_end, at_step = middle
                own = self._number(trial, trial.intermediate_values[step])
                if math.isfinite(own):
                    values[trial.number] = at_end + sign * scale * (own - at_step)
        return {number: value for number, value in values.items() if math.isfinite(value)}

    def _number(self, trial: FrozenTrial, value: float | None) -> float:
        if value is None:
            return math.nan
        if not self._logarithmic:
            return value
        if value <= 0.0:
            raise ValueError(
                f"trial {trial.number}: {value:g} has no logarithm; "
                "use ModelSampler(..., logarithmic=False)"
            )
        return math.log(value)

    def _configuration(self, trial: FrozenTrial) -> Configuration | None:
        """Return the configuration of a trial; None if its parameters do not determine it."""
        key = tuple(sorted((n, v) for n, v in trial.params.items() if n in self._questions))
        if key not in self._configurations:
            again = Replay(dict(key))
            configuration = ask(again, self._tunables)
            self._configurations[key] = configuration if again.faithful else None
        return self._configurations[key]


@dataclass(frozen=True, slots=True)
class _Result:
    """The result of a configuration. ``values``: of its measurements; ``failed``: in every trial;
    ``pruned``: every trial was pruned or failed.
    """

    values: tuple[float, ...] = ()
    failed: bool = False
    pruned: bool = False


def _all(trials: Sequence[FrozenTrial], *states: TrialState) -> bool:
    return all(trial.state in states for trial in trials)


def _scale(values: Sequence[float]) -> float:
    """Return the factor that scales the spread of values to the one that the model expects."""
    if not values:
        return 1.0
    middle = median(values)
    distances = [abs(value - middle) for value in values]
    widest = max(distances)
    # A few values far from all others, such as penalties, must not become effects of thousands.
    spread = max(_NORMAL * median(distances) or widest, _LEAST_SPREAD * widest)
    return _SPREAD / spread if spread > 0.0 else 1.0
