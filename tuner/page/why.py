"""Why a trial may be faster, from blocks that measured both it and the baseline."""

from __future__ import annotations

from collections.abc import Sequence

from tuner.model import BASELINE, Block, BlockKind
from tuner.report.why import ENOUGH, reasons
from tuner.store import Store
from tuner.store.pages import Pages

#: Diagnostics come from at most this many blocks, up to the newest that measured the trial.
_MOST_BLOCKS = 500


def why(store: Store, campaign: str, trial: int) -> list[str]:
    """Return a sentence for each large change in the diagnostics from the baseline to a trial.

    ``campaign``: its full identifier. Empty for the baseline itself.
    """
    if trial == BASELINE:
        return []
    return reasons(sample(paired(store, campaign, trial)), trial)


def paired(store: Store, campaign: str, trial: int) -> list[Block]:
    """Return the newest blocks that measured both the baseline and a trial, however old."""
    both = {BASELINE, trial}
    last = Pages(store).last_block_of(campaign, trial)
    newest = store.blocks(campaign, max(0, last - _MOST_BLOCKS), trials=both)
    return [b for b in newest if both <= {m.trial for m in b.measurements}]


def sample(blocks: Sequence[Block]) -> Sequence[Block]:
    """Return the fresh blocks among these if there are enough of them, otherwise all."""
    fresh = [b for b in blocks if b.kind is BlockKind.CERTIFY]
    return fresh if len(fresh) >= ENOUGH else blocks
