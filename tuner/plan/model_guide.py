"""Guide of a campaign: answers a plan's questions with the proposer and the model of effects."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from tuner.judge.adjustment import scaled
from tuner.judge.score import margin
from tuner.model import BASELINE, Configuration, Prior, Trial
from tuner.plan.batches import batch_number
from tuner.plan.guide import Noise, Pick
from tuner.plan.rules import Rules
from tuner.plan.scores import ScoreTable
from tuner.propose.allowed import is_allowed, is_possible
from tuner.propose.encoding import Tunable
from tuner.propose.objective import Objective
from tuner.propose.prediction import Contribution, Prediction
from tuner.propose.proposer import Observation, Proposal, Proposer
from tuner.propose.search import Search
from tuner.propose.search_trials import Arm, SearchTrial
from tuner.states import TrialState

_MODEL = "model"


@dataclass(slots=True)
class ModelGuide:
    """Views a campaign through the model of effects.

    ``first``: configurations to try first. ``priors``: those that this campaign may not try itself
    only inform the model. ``proposer``: proposes new configurations; None to let the model propose
    them.
    """

    tunables: Mapping[str, Tunable]
    baseline: Configuration
    rules: Rules
    first: Sequence[Proposal] = ()
    priors: Sequence[Prior] = ()
    proposer: Proposer | None = None
    _not_allowed: frozenset[Configuration] = frozenset()
    _arms: list[Arm] = field(default_factory=list)
    _blocks_read: int = 0
    _view: _ModelView | None = None
    _view_key: tuple[object, ...] = ()

    def __post_init__(self) -> None:
        self.priors = [one for one in self.priors if is_possible(one.configuration, self.tunables)]
        self._not_allowed = frozenset(
            one.configuration
            for one in self.priors
            if not is_allowed(one.configuration, self.tunables)
        )

    def look(
        self, trials: Sequence[Trial], table: ScoreTable, out: Collection[int], floor: float
    ) -> _ModelView:
        """See Guide.look."""
        key = (len(trials), len(table.scored), frozenset(out), _states(trials), floor)
        if self._view is None or key != self._view_key:
            for index, one in enumerate(table.scored[self._blocks_read :], start=self._blocks_read):
                load = one.block.covariates
                self._arms += [
                    Arm(number, index, tuple(map(math.log, seconds)), scaled(load.get(number, ())))
                    for number, seconds in one.block.times_s.items()
                ]
            self._blocks_read = max(self._blocks_read, len(table.scored))
            arms = [arm for arm in self._arms if arm.block < len(table.scored)]
            self._view_key = key
            self._view = _ModelView(self, trials, table, out, arms, floor)
        return self._view


def _states(trials: Sequence[Trial]) -> int:
    """Number of trials that have failed or ended in another way."""
    return sum(t.state is not TrialState.RUNNING for t in trials)


class _ModelView:
    """See View."""

    def __init__(
        self,
        guide: ModelGuide,
        trials: Sequence[Trial],
        table: ScoreTable,
        out: Collection[int],
        arms: Sequence[Arm],
        floor: float,
    ) -> None:
        self._guide = guide
        self._trials = trials
        self._means = table.means()
        rules = guide.rules
        out_of_search = (TrialState.FAILED, TrialState.CANCELLED)
        of_campaign = [
            SearchTrial(
                t.number, t.configuration, failed=t.state in out_of_search, out=t.number in out
            )
            for t in trials
        ]
        least = margin(rules.race.delta)
        objective = Objective(
            weights=rules.weights,
            floor=margin(floor),
            tolerance=(least / 4.0, least),
        )
        # The campaign's own measurements are the better evidence, and a trial that is out must stay
        # out.
        here = {t.configuration for t in trials}
        self._priors = [prior for prior in guide.priors if prior.configuration not in here]
        prior_trials, prior_arms = _prior_arms(
            self._priors, guide._not_allowed, len(trials), len(rules.weights)
        )
        self._search = Search(
            guide.tunables,
            guide.baseline,
            [*of_campaign, *prior_trials],
            [*arms, *prior_arms],
            objective,
            f"{rules.seed}:{len(table.scored)}",
            rounds=len({batch_number(one.block) for one in table.scored}) + len(self._priors),
        )
        self._has_arms = bool(arms)
        self._blocks = len(table.scored)

    @property
    def best(self) -> Prediction | None:
        """See View.best. Computed on demand, since it takes most of the time of a look."""
        return self._if_better(self._search.best()) if self._has_arms else None

    def simplest(self, certified: Configuration) -> Prediction | None:
        """See View.simplest."""
        return self._if_better(self._search.simplest(certified)) if self._has_arms else None

    def _if_better(self, prediction: Prediction) -> Prediction | None:
        # Rounding may give the baseline itself a gain.
        is_baseline = prediction.configuration == self._guide.baseline
        return prediction if prediction.gain > 0.0 and not is_baseline else None

    @property
    def noise(self) -> Noise:
        """See View.noise."""
        score, *components = (math.sqrt(2.0 * fit.noise) for fit in self._search.model.outputs)
        return Noise(score, tuple(components))

    def hope(self, gain: float, *, new: bool) -> float:
        """See View.hope."""
        return self._search.hope(gain, new=new)

    def prediction(self, trial: Trial) -> Prediction:
        """See View.prediction."""
        return self._search.prediction(trial.configuration)

    def contributions(self, trial: Trial) -> list[Contribution]:
        """See View.contributions."""
        return self._search.contributions(trial.configuration)

    def picks(self, count: int, most_new: int | None) -> list[Pick]:
        """See View.picks."""
        numbers = {t.configuration: t.number for t in reversed(self._trials)}
        most = count if most_new is None else min(count, most_new)
        first = [each for each in self._guide.first if each.configuration not in numbers][:most]
        if len(first) == count:
            return [*first]
        first_configurations = {each.configuration for each in first}
        room = most - len(first)
        picks: list[Pick] = [*first]
        if self._guide.proposer is None:
            best = self._search.arms(count - len(first), new=room)
            picks += [
                numbers[each] if each in numbers else Proposal(each, _MODEL)
                for each in best
                if each not in first_configurations
            ]
            return picks
        observations = [Observation(t.configuration, self._difference(t)) for t in self._trials]
        observations += [Observation(each, None) for each in first_configurations]
        observations += [
            Observation(p.configuration, p.difference, prior=True) for p in self._priors
        ]
        # With a single arm, the leading trial and new ones take turns.
        if count - len(first) > 1 or self._blocks % 2 == 0:
            leader = self._search.arms(1, new=0)
            picks += [numbers[each] for each in leader if each not in first_configurations]
        picks += self._guide.proposer.propose(min(room, count - len(picks)), observations)
        if len(picks) < count:  # nothing new may or can be added
            own = [numbers[each] for each in self._search.arms(count, new=0) if each in numbers]
            picks += [number for number in own if number not in picks][: count - len(picks)]
        return picks

    def _difference(self, trial: Trial) -> float | None:
        return 0.0 if trial.number == BASELINE else self._means.get(trial.number)


def _prior_arms(
    priors: Sequence[Prior], not_allowed: Collection[Configuration], first: int, components: int
) -> tuple[list[SearchTrial], list[Arm]]:
    """Convert results of earlier campaigns to trials and arms, with one block for each prior.
    ``not_allowed``: must not be measured here.
    """
    trials, arms = [], []
    for number, prior in enumerate(priors):
        trial, block = first + number, -1 - number
        out = prior.configuration in not_allowed
        trials.append(SearchTrial(trial, prior.configuration, out=out, earlier=True))
        arms.append(Arm(BASELINE, block, (0.0,) * components))
        arms.append(Arm(trial, block, (prior.difference,) * components))
    return trials, arms
