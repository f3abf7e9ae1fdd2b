"""What every proposer gets, and what it returns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from tuner.model import Configuration


@dataclass(frozen=True, slots=True)
class Observation:
    """What is known of a configuration: mean log time ratio to the baseline, None when never
    measured. ``prior``: it was found elsewhere, and may be proposed again.
    """

    configuration: Configuration
    difference: float | None
    prior: bool = False


@dataclass(frozen=True, slots=True)
class Proposal:
    """A configuration to try. ``origin``: who proposes it."""

    configuration: Configuration
    origin: str


class Proposer(Protocol):
    """Proposes configurations. Same question, same answer: it keeps nothing between calls."""

    def propose(self, count: int, observations: Sequence[Observation]) -> list[Proposal]:
        """Up to ``count`` valid configurations that are not among ``observations``, priors aside;
        fewer when it finds no more.
        """
        ...
