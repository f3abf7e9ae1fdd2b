"""Proposers by name, imported on demand because optimisers are slow to import."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

from tuner.propose.encoding import Tunable
from tuner.propose.proposer import Proposer


def proposer(name: str, tunables: Mapping[str, Tunable], seed: int) -> Proposer | None:
    """Return the proposer of that name; None for "model", where ``Search`` itself proposes."""
    if name == "model":
        return None
    if name == "grid":
        from tuner.propose.samplers.grid import GridProposer

        return GridProposer(tunables, seed)
    from tuner.propose.asking import OptunaProposer

    strategy = import_module(f"tuner.propose.samplers.{name}")
    return OptunaProposer(tunables, name, strategy.sampler, seed)
