"""The estimate that terminals and pages show of each trial, and what it rests on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tuner.model import BlockKind, Recommendation
from tuner.records.estimate import Estimate
from tuner.text import confidence_text, counted


@dataclass(frozen=True, slots=True)
class TrialEstimate:
    """The estimate of a trial from ``blocks`` blocks. ``basis``: the fresh blocks that it rests on,
    in words; "" if it has none.
    """

    estimate: Estimate
    blocks: int
    basis: str = ""


def strongest_estimates(
    by_kind: Mapping[BlockKind, Mapping[int, tuple[Estimate, int]]],
    answer: Recommendation | None,
) -> dict[int, TrialEstimate]:
    """Return the strongest estimate of each trial: that of the answer, otherwise from all its fresh
    blocks so far, otherwise from search or pilot.

    Blocks after a certificate change the estimate of its trial, but not the answer. Readers could
    not tell which of two numbers is the answer. The interval of a verification is not among them:
    unlike the others, it is not valid under repeated looks.
    """
    strongest: dict[int, TrialEstimate] = {}
    for kind in (BlockKind.PILOT, BlockKind.SEARCH, BlockKind.CERTIFY):
        for trial, (estimate, blocks) in by_kind.get(kind, {}).items():
            basis = f"on {counted(blocks, 'fresh block')}" if kind is BlockKind.CERTIFY else ""
            strongest[trial] = TrialEstimate(estimate, blocks, basis)
    r = answer
    if r is None or r.verification:
        return strongest
    if r.ratio is not None and r.lower is not None and r.upper is not None:
        basis = f"{confidence_text(r.confidence)}, on {counted(r.blocks, 'fresh block')}"
        strongest[r.trial] = TrialEstimate(Estimate(r.ratio, r.lower, r.upper), r.blocks, basis)
    return strongest
