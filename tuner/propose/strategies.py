"""Proposers by name, imported on demand because optimisers are slow to import."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

from tuner.propose.encoding import Tunable
from tuner.propose.proposer import Proposer

#: Samplers that learn only from parameters that every trial has.
_FLAT = ("cmaes", "nsga2")


def proposer(name: str, tunables: Mapping[str, Tunable], seed: int) -> Proposer | None:
    """Return the proposer of that name; None for "model", where ``Search`` itself proposes."""
    if name == "model":
        return None
    if name == "grid":
        from tuner.propose.samplers.grid import GridProposer

        return GridProposer(tunables, seed)
    sampler = import_module(f"tuner.propose.samplers.{name}").sampler
    if name in _FLAT:
        from tuner.propose.flat import FlatProposer

        return FlatProposer(tunables, name, sampler, seed)
    from tuner.propose.asking import OptunaProposer

    return OptunaProposer(tunables, name, sampler, seed)
