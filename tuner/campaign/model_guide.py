"""The guide of a campaign: its proposer and the model of effects, as a plan asks them."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from tuner.campaign.guide import Noise, Pick
from tuner.campaign.rules import Rules
from tuner.campaign.scores import ScoreTable
from tuner.judge.score import margin
from tuner.model import BASELINE, Configuration, Prior, Trial
from tuner.propose.encoding import Tunable
from tuner.propose.outlook import Contribution, Outlook
from tuner.propose.proposer import Proposal, Proposer, Told
from tuner.propose.search import Aims, Search
from tuner.propose.tried import Arm, Tried
from tuner.states import TrialState

_MODEL = "model"


@dataclass(slots=True)
class ModelGuide:
    """Looks at a campaign through the model of effects.

    ``named``: what the campaign wants tried first. ``proposer``: proposes new configurations
    instead of the model, None where the model does.
    """

    tunables: Mapping[str, Tunable]
    baseline: Configuration
    rules: Rules
    named: Sequence[Proposal] = ()
    priors: Sequence[Prior] = ()
    proposer: Proposer | None = None
    _arms: list[Arm] = field(default_factory=list)
    _taken: int = 0
    _view: _ModelView | None = None
    _asked: tuple[object, ...] = ()

    def look(
        self, trials: Sequence[Trial], table: ScoreTable, out: Collection[int], floor: float
    ) -> _ModelView:
        """See Guide.look."""
        asked = (len(trials), len(table.scored), frozenset(out), _states(trials), floor)
        if self._view is None or asked != self._asked:
            for place, one in enumerate(table.scored[self._taken :], start=self._taken):
                times = one.block.times_s
                self._arms += [
                    Arm(number, place, tuple(map(math.log, seconds)))
                    for number, seconds in times.items()
                ]
            self._taken = len(table.scored)
            self._asked = asked
            self._view = _ModelView(self, trials, table, out, self._arms, floor)
        return self._view


def _states(trials: Sequence[Trial]) -> int:
    """How many trials have failed, or are out in another way."""
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
        gone = (TrialState.FAILED, TrialState.CANCELLED)
        known = [
            Tried(t.number, t.configuration, failed=t.state in gone, out=t.number in out)
            for t in trials
        ]
        least = margin(rules.race.delta)
        aims = Aims(
            weights=rules.weights,
            floor=margin(floor),
            tolerance=(least / 4.0, least),
        )
        # What is measured here is known better here, and a trial that is out must stay out.
        here = {t.configuration for t in trials}
        self._priors = [prior for prior in guide.priors if prior.configuration not in here]
        prior_trials, prior_arms = _prior_arms(self._priors, len(trials), len(rules.weights))
        self._search = Search(
            guide.tunables,
            guide.baseline,
            [*known, *prior_trials],
            [*arms, *prior_arms],
            aims,
            f"{rules.seed}:{len(table.scored)}",
        )
        self._measured = bool(arms)

    @property
    def best(self) -> Outlook | None:
        """See View.best. Worked out when it is asked for: most of a look is spent on it."""
        found = self._search.best() if self._measured else None
        return found if found is not None and found.gain > 0.0 else None

    @property
    def noise(self) -> Noise:
        """See View.noise."""
        score, *components = (math.sqrt(2.0 * fit.noise) for fit in self._search.model.outputs)
        return Noise(score, tuple(components))

    def hope(self, gain: float, *, new: bool) -> float:
        """See View.hope."""
        return self._search.hope(gain, new=new)

    def outlook(self, trial: Trial) -> Outlook:
        """See View.outlook."""
        return self._search.outlook(trial.configuration)

    def contributions(self, trial: Trial) -> list[Contribution]:
        """See View.contributions."""
        return self._search.contributions(trial.configuration)

    def picks(self, count: int, most_new: int | None) -> list[Pick]:
        """See View.picks."""
        numbers = {t.configuration: t.number for t in reversed(self._trials)}
        most = count if most_new is None else min(count, most_new)
        named = [each for each in self._guide.named if each.configuration not in numbers][:most]
        if len(named) == count:
            return [*named]
        wanted = {each.configuration for each in named}
        left = most - len(named)
        found: list[Pick] = [*named]
        if self._guide.proposer is None:
            chosen = self._search.arms(count - len(named), new=left)
            found += [
                numbers.get(each, Proposal(each, _MODEL)) for each in chosen if each not in wanted
            ]
            return found
        told = [Told(t.configuration, self._told(t)) for t in self._trials]
        told += [Told(each, None) for each in wanted]
        told += [Told(p.configuration, p.difference, prior=True) for p in self._priors]
        leader = self._search.arms(1, new=0)
        found += [numbers[each] for each in leader if each in numbers and each not in wanted]
        return [*found, *self._guide.proposer.propose(min(left, count - len(found)), told)]

    def _told(self, trial: Trial) -> float | None:
        return 0.0 if trial.number == BASELINE else self._means.get(trial.number)


def _prior_arms(
    priors: Sequence[Prior], first: int, components: int
) -> tuple[list[Tried], list[Arm]]:
    """What an earlier campaign found, as a block of its own for each configuration."""
    tried, arms = [], []
    for number, prior in enumerate(priors):
        trial, block = first + number, -1 - number
        tried.append(Tried(trial, prior.configuration))
        arms.append(Arm(BASELINE, block, (0.0,) * components))
        arms.append(Arm(trial, block, (prior.difference,) * components))
    return tried, arms
