"""Interface between a plan and the search: what to measure next, and what looks best so far."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from tuner.model import Configuration, Trial
from tuner.plan.scores import ScoreTable
from tuner.propose.prediction import Contribution, Prediction
from tuner.propose.proposer import Proposal

#: An arm of the next block: the number of an existing trial, or a new configuration.
Pick = int | Proposal


@dataclass(frozen=True, slots=True)
class Noise:
    """Standard deviations of the difference between two runs in one block, in log units: of the
    score and of each component.
    """

    score: float
    components: tuple[float, ...]


class View(Protocol):
    """What the measurements so far imply. The same measurements always give the same view."""

    @property
    def best(self) -> Prediction | None:
        """The best candidate; None while nothing looks better than the baseline."""
        ...

    def simplest(self, certified: Configuration) -> Prediction | None:
        """Return the best candidate without the settings that are not known to pay, as far as it is
        not known to be worse than the certified configuration; None likewise.
        """
        ...

    @property
    def noise(self) -> Noise:
        """How noisy measurements are."""
        ...

    def hope(self, gain: float, *, new: bool) -> float:
        """Return the probability that some configuration gains more than ``gain`` (log units).
        Without ``new``, only configurations that were already tried count.
        """
        ...

    def prediction(self, trial: Trial) -> Prediction:
        """Return what is expected of a trial."""
        ...

    def contributions(self, trial: Trial) -> Sequence[Contribution]:
        """Return the effect of each setting of a trial, as far as it can be estimated."""
        ...

    def picks(self, count: int, most_new: int | None) -> Sequence[Pick]:
        """Return the arms of the next block: at most ``count``, of which at most ``most_new`` are
        new; empty when there is nothing left to try.
        """
        ...


class Guide(Protocol):
    """Derives views from the measurements of a campaign."""

    def look(
        self, trials: Sequence[Trial], table: ScoreTable, out: Collection[int], floor: float
    ) -> View:
        """Return the view of the measurements so far. ``out``: trials that must not be measured
        again. ``floor``: the largest loss allowed to a component, as a fraction.
        """
        ...
