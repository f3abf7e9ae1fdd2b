"""When a campaign halts because nothing can be measured any more."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tuner.model import Block, BlockKind, BlockTimes, Trial
from tuner.states import BlockState, TrialState

#: Consecutive void blocks in one run after which the campaign halts.
MAX_VOID_IN_A_ROW = 4


def void_reason(
    blocks: Sequence[Block | BlockTimes], failed: Collection[int], most: int = MAX_VOID_IN_A_ROW
) -> str | None:
    """Return why the campaign must halt, or None. It must after ``most`` consecutive void blocks
    that are not explained by a trial that has failed. The twin of the baseline explains nothing: it
    is in every block of the pilot, which would never end.
    """
    void: list[str] = []
    for block in reversed(blocks):
        if block.state is not BlockState.VOID or len(void) == most:
            break
        if block.kind is BlockKind.PILOT or not set(failed) & set(block.order):
            void.append(block.reason)
    if len(void) < most:
        return None
    return f"{most} blocks in a row were void; the last one: {void[0]}"


def no_block_reason(last: Block | BlockTimes, trials: Sequence[Trial]) -> str:
    """Return why a campaign ends without any measured block: why the last one is void, and why the
    newest trial that does not run failed, if any.
    """
    reason = f"no block could be completed; the last one: {last.reason}"
    failed = [trial for trial in trials if trial.state is TrialState.FAILED]
    if not failed:
        return reason
    return f"{reason}; trial {failed[-1].number} failed: {failed[-1].reason}"
