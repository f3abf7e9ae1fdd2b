"""The interface of proposers: their input and output."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from tuner.model import Configuration


@dataclass(frozen=True, slots=True)
class Observation:
    """Result of a configuration. ``difference``: mean log time ratio to the baseline, None if never
    measured. ``prior``: it was measured elsewhere, and may be proposed again.
    """

    configuration: Configuration
    difference: float | None
    prior: bool = False


@dataclass(frozen=True, slots=True)
class Proposal:
    """A configuration to try. ``origin``: the name of the proposer."""

    configuration: Configuration
    origin: str


class Proposer(Protocol):
    """Proposes configurations. Deterministic and stateless: the same call, the same proposals."""

    def propose(self, count: int, observations: Sequence[Observation]) -> list[Proposal]:
        """Propose up to ``count`` valid configurations that are not among ``observations``, except
        priors; fewer if it finds no more.
        """
        ...
