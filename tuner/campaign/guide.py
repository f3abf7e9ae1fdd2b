"""What a plan asks of the search: which arms to measure next, and what looks best so far."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from tuner.campaign.scores import ScoreTable
from tuner.model import Trial
from tuner.propose.outlook import Contribution, Outlook
from tuner.propose.proposer import Proposal

#: An arm of the next block: a trial that comes back, by its number, or a new configuration.
Pick = int | Proposal


@dataclass(frozen=True, slots=True)
class Noise:
    """Standard deviations of a difference of two runs in one block, log units: of the score, and of
    each component.
    """

    score: float
    components: tuple[float, ...]


class View(Protocol):
    """What the measurements so far say; the same measurements, the same view."""

    @property
    def best(self) -> Outlook | None:
        """What looks best; None while nothing looks better than the baseline."""
        ...

    @property
    def noise(self) -> Noise:
        """How noisy measurements are."""
        ...

    def hope(self, gain: float, *, new: bool) -> float:
        """The probability that some configuration gains more than ``gain``, log units: any, or of
        those that were tried only, where no ``new`` one may be.
        """
        ...

    def outlook(self, trial: Trial) -> Outlook:
        """What is expected of a trial."""
        ...

    def contributions(self, trial: Trial) -> Sequence[Contribution]:
        """What each setting of a trial brings, as far as can be told."""
        ...

    def picks(self, count: int, most_new: int | None) -> Sequence[Pick]:
        """The arms of the next block: at most so many, and so many new ones; empty when there is
        nothing left to try.
        """
        ...


class Guide(Protocol):
    """Looks at the measurements of a campaign."""

    def look(
        self, trials: Sequence[Trial], table: ScoreTable, out: Collection[int], floor: float
    ) -> View:
        """The view of so much. ``out``: trials that are not to be measured again. ``floor``: the
        largest loss allowed to a component, a fraction.
        """
        ...
