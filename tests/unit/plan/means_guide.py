"""A simple but sound guide for made-up campaigns, based on the mean differences of each trial."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from tuner.judge.score import margin
from tuner.model import BASELINE, BlockKind, Configuration, Trial
from tuner.plan.guide import Noise, Pick
from tuner.plan.scores import ScoreTable
from tuner.propose.prediction import Contribution, Prediction
from tuner.propose.proposer import Proposal
from tuner.states import TrialState

#: Standard deviation of the gain of a configuration that was never measured, in log units.
_UNKNOWN = 0.05
#: Prior guess of the noise, and its weight in pairs.
_GUESS, _TRUST = 0.02, 2.0


def configuration(number: int) -> Configuration:
    """The configuration that becomes trial ``number``."""
    return Configuration.of({"server.p": number})


@dataclass
class MeansGuide:
    """Picks the trials that look best, and new configurations in order of number.

    ``floor``: the largest loss of a component, as a fraction. ``new``: how many configurations
    exist.
    """

    weights: Sequence[float]
    floor: float
    new: int = 1000

    def look(
        self, trials: Sequence[Trial], table: ScoreTable, out: Collection[int], floor: float
    ) -> MeansView:
        return MeansView(self, trials, table, frozenset(out))


class MeansView:
    """View of each trial's differences to the baseline; see ``tuner.plan.guide.View``."""

    def __init__(
        self,
        guide: MeansGuide,
        trials: Sequence[Trial],
        table: ScoreTable,
        out: frozenset[int],
    ) -> None:
        self._guide = guide
        self._predictions: dict[int, Prediction] = {}
        self._trials = trials
        failed = {t.number for t in trials if t.state in (TrialState.FAILED, TrialState.CANCELLED)}
        self._free = [t for t in trials if t.number not in {BASELINE, *failed, *out}]
        observations = table.observations([BlockKind.SEARCH, BlockKind.CERTIFY])
        scores = np.column_stack([observations.logs @ np.asarray(guide.weights), observations.logs])
        self._of = {int(n): scores[observations.trial == n] for n in np.unique(observations.trial)}
        left = [rows - rows.mean(axis=0) for rows in self._of.values()]
        squares = sum(((each**2).sum(axis=0) for each in left), np.zeros(scores.shape[1]))
        free = sum(len(each) - 1 for each in left)
        variance = (squares + _TRUST * _GUESS**2) / (free + _TRUST)
        score, *components = np.sqrt(variance).tolist()
        self.noise = Noise(score, tuple(components))

    @property
    def best(self) -> Prediction | None:
        predictions = [self.prediction(t) for t in self._free if t.number in self._of]
        leader = max(predictions, key=lambda each: each.gain * each.feasible, default=None)
        return leader if leader is not None and leader.gain > 0.0 else None

    def simplest(self, certified: Configuration) -> Prediction | None:
        return self.best

    def hope(self, gain: float, *, new: bool) -> float:
        none = 1.0
        for trial in self._free:
            one = self.prediction(trial)
            none *= float(ndtr((gain - one.gain) / one.error))
        return 1.0 - none * (float(ndtr(gain / _UNKNOWN)) if new and self._left() else 1.0)

    def prediction(self, trial: Trial) -> Prediction:
        if trial.number not in self._predictions:
            self._predictions[trial.number] = self._prediction(trial)
        return self._predictions[trial.number]

    def _prediction(self, trial: Trial) -> Prediction:
        rows = self._of.get(trial.number)
        if rows is None:
            unknown = tuple((0.0, _UNKNOWN) for _ in self.noise.components)
            return Prediction(trial.configuration, 0.0, _UNKNOWN, 0.5, unknown)
        mean = rows.mean(axis=0).tolist()
        errors = [s / math.sqrt(len(rows)) for s in (self.noise.score, *self.noise.components)]
        room = margin(self._guide.floor)
        pairs = list(zip(mean, errors, strict=True))
        feasible = math.prod(float(ndtr((room - m) / e)) for m, e in pairs[1:])
        return Prediction(
            trial.configuration, -pairs[0][0], pairs[0][1], feasible, tuple(pairs[1:])
        )

    def contributions(self, trial: Trial) -> list[Contribution]:
        return []

    def picks(self, count: int, most_new: int | None) -> list[Pick]:
        left = self._left() if most_new is None else min(self._left(), most_new)
        first = len(self._trials)
        order = sorted(self._free, key=lambda t: (-self.prediction(t).gain, t.number))
        # At least a third of the arms are existing trials.
        back = [t.number for t in order][: max(count // 3, count - left)]
        new = range(first, first + min(left, count - len(back)))
        return [*back, *(Proposal(configuration(n), "test") for n in new)]

    def _left(self) -> int:
        return max(0, self._guide.new + 1 - len(self._trials))
