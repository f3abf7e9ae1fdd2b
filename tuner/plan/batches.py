"""Batches of blocks, one for each testbed, measured at once: which are complete or missing. Pure.

Decisions consider a batch only once it is complete, and read it in slot order. They therefore
depend neither on which testbed finished first nor on which blocks were cut off and measured again.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TypeVar

from tuner.model import BASELINE, Block, BlockKind, BlockTimes
from tuner.plan.guide import Pick
from tuner.plan.rules import Rules
from tuner.plan.steps import RunBatch, RunBlock
from tuner.states import BlockState

AnyBlock = TypeVar("AnyBlock", Block, BlockTimes)


def whole_batches(blocks: float, testbeds: int) -> float:
    """Return how many blocks are measured to have this many: on several testbeds, whole batches."""
    return math.ceil(blocks / testbeds) * testbeds if testbeds > 1 else blocks


@dataclass(frozen=True, slots=True)
class Missing:
    """A slot of a batch without a complete block. ``trials``: the trials to measure; ``testbed``:
    where to measure them.
    """

    batch: int
    slot: int
    kind: BlockKind
    round: int
    trials: tuple[int, ...]
    testbed: str | None


def usable(
    blocks: Sequence[AnyBlock], failed: Collection[int]
) -> tuple[list[AnyBlock], list[Missing]]:
    """Return the blocks that decisions may use, in decision order, and the slots to measure first.

    The newest batch is left out while it is incomplete. A slot is not measured again when all of
    its trials have ``failed``. The durations within a batch are scaled to add up to its elapsed
    time. As blocks are added, the returned list only grows at its end.
    """
    if not blocks or blocks[-1].batch is None:
        return list(blocks), []
    groups = [list(group) for _, group in groupby(blocks, batch_number)]
    testbeds = list(dict.fromkeys(b.testbed for b in blocks if b.batch is not None))
    missing = _missing(groups[-1], failed, testbeds)
    whole = groups[:-1] if missing else groups
    return [block for group in whole for block in _in_order(group)], missing


def remeasuring(missing: Sequence[Missing], rules: Rules, number: int, width: int) -> RunBatch:
    """Measure the missing slots, at most ``width`` at once, in blocks numbered from ``number``."""
    return RunBatch(
        tuple(
            RunBlock.shuffled(
                rules.seed,
                number + index,
                each.kind,
                each.round,
                each.trials,
                batch=each.batch,
                slot=each.slot,
                testbed=each.testbed,
            )
            for index, each in enumerate(missing[:width])
        )
    )


def batch(first: RunBlock, blocks: Sequence[AnyBlock], rules: Rules, width: int) -> RunBatch:
    """Batch ``first`` with further blocks like it: one per testbed, within the limit for that kind.

    ``blocks``: the blocks that decisions may use.
    """
    count = max(1, min(width, _blocks_left(first, blocks, rules)))
    trials = tuple(sorted(number for number in first.order if number != BASELINE))
    return RunBatch(
        tuple(
            RunBlock.shuffled(
                rules.seed,
                first.number + slot,
                first.kind,
                first.round,
                trials,
                batch=first.number,
                slot=slot,
            )
            for slot in range(count)
        )
    )


def batch_number(block: Block | BlockTimes) -> int:
    """Return the number of the batch of a block; that of the block if it was measured alone."""
    return block.number if block.batch is None else block.batch


def _missing(
    group: Sequence[AnyBlock], failed: Collection[int], testbeds: Sequence[str | None]
) -> list[Missing]:
    newest = {block.slot: block for block in group}
    complete = {block.slot for block in group if block.state is BlockState.COMPLETE}
    excluded = set(failed) | {BASELINE}
    return [
        Missing(
            batch_number(block),
            slot,
            block.kind,
            block.round,
            tuple(sorted(set(block.order) - {BASELINE} - set(failed))),
            _where([each for each in group if each.slot == slot], testbeds),
        )
        for slot, block in sorted(newest.items())
        if slot not in complete and not excluded >= set(block.order)
    ]


def _where(earlier: Sequence[Block | BlockTimes], testbeds: Sequence[str | None]) -> str | None:
    """Choose where to measure a slot again: the same testbed, unless the slot was void there
    twice. Only another testbed can then show whether the testbed or a configuration is to blame.
    """
    voids = Counter(block.testbed for block in earlier)
    newest = earlier[-1].testbed
    return newest if voids[newest] < 2 else min(testbeds, key=lambda testbed: voids[testbed])


def _in_order(group: Sequence[AnyBlock]) -> Iterator[AnyBlock]:
    """Yield the blocks of a complete batch in slot order.

    Their durations are scaled to add up to the elapsed time of the batch.
    """
    took: dict[str | None, float] = {}
    for block in group:
        took[block.testbed] = took.get(block.testbed, 0.0) + block.duration_s
    total_s = sum(took.values())
    share = max(took.values()) / total_s if total_s > 0.0 else 1.0
    for block in sorted(group, key=lambda each: (each.slot, each.number)):
        yield block if share == 1.0 else replace(block, duration_s=share * block.duration_s)


def _blocks_left(first: RunBlock, blocks: Sequence[AnyBlock], rules: Rules) -> int:
    """How many more blocks of this kind are allowed."""
    of_kind = [b for b in blocks if b.kind is first.kind and b.state is BlockState.COMPLETE]
    match first.kind:
        case BlockKind.PILOT:
            most = 0 if rules.pilot is None else rules.pilot.max_blocks
            return most - len(of_kind)
        case BlockKind.SEARCH:
            return rules.testbeds
        case BlockKind.CERTIFY:
            return rules.certify_blocks - sum(b.round == first.round for b in of_kind)


def in_groups(picks: Sequence[Pick], groups: int) -> tuple[tuple[Pick, ...], ...]:
    """Deal the picks to the groups in turn. If there are fewer picks than groups, some are repeated
    so that no testbed is idle.
    """
    enough = [picks[n % len(picks)] for n in range(max(groups, len(picks)))]
    return tuple(tuple(enough[first::groups]) for first in range(groups))
