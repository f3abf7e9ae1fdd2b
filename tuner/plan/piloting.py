"""The pilot of a campaign: the baseline against its twin, before anything is tuned. Pure.

Defines the pilot in terms of stored blocks: every pilot block measures trial 0 and a twin with the
same configuration, in random order. The twin is used for nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from tuner.judge.adjustment import WORDS
from tuner.judge.evalue import MIN_PAIRS
from tuner.judge.pilot import Pilot, PilotBlock, PilotOutcome, PilotRules, assess_pilot
from tuner.model import BASELINE, COVARIATES, BlockKind, BlockTimes, Trial
from tuner.plan.batches import whole_batches
from tuner.states import BlockState

#: Mean numbers of processors from which other load is worth a warning, keyed by the first word of a
#: covariate's name.
_MUCH: Mapping[str, float] = {"others": 0.25, "stolen": 0.1}
#: Origin of the twin.
TWIN_ORIGIN = "pilot"


@dataclass(frozen=True, slots=True)
class PilotPlan:
    """The state of the pilot. ``more``: another block is to be measured."""

    twin: int | None
    more: bool
    assessment: Pilot | None

    @property
    def refusal(self) -> str | None:
        """Why the campaign should not start, as a sentence; None if it may."""
        if self.assessment is None or self.assessment.outcome is not PilotOutcome.REFUSED:
            return None
        return "; ".join(self.assessment.refusals)


def is_as_found(trial: Trial) -> bool:
    """Whether a trial is the baseline or its twin: neither is to blame for a failure."""
    return trial.number == BASELINE or trial.origin == TWIN_ORIGIN


def plan_pilot(
    trials: Sequence[Trial], blocks: Sequence[BlockTimes], rules: PilotRules | None
) -> PilotPlan:
    """Assess the pilot blocks so far. ``rules`` is None for a campaign without a pilot.

    Once a block of the search has been measured, the pilot is over, whatever its outcome.
    """
    twin = next((t.number for t in trials if t.origin == TWIN_ORIGIN), None)
    if rules is None or twin is None:
        return PilotPlan(twin, False, None)
    pairs = [_pair(block, twin) for block in blocks if _counts(block, twin)]
    most = _most_blocks(rules, pairs)
    limited = replace(rules, max_blocks=max(most, len(pairs)))
    assessment = assess_pilot(pairs, limited) if len(pairs) >= MIN_PAIRS else None
    if assessment is not None:
        warnings = (*_other_load([b for b in blocks if _counts(b, twin)]), *assessment.warnings)
        assessment = replace(assessment, warnings=warnings)
    search_began = any(block.kind is not BlockKind.PILOT for block in blocks)
    undecided = assessment is None or assessment.outcome is PilotOutcome.UNDECIDED
    more = undecided and not search_began and len(pairs) < most
    return PilotPlan(twin, more, assessment)


def _most_blocks(rules: PilotRules, pairs: Sequence[PilotBlock]) -> int:
    """The maximum number of blocks, so that the budget has room for a block of the search on every
    testbed, unless it compares, and the certification besides; but never fewer than the shortest
    pilot takes.
    """
    width = rules.testbeds
    runs = math.inf if rules.budget_measurements is None else float(rules.budget_measurements)
    if pairs:
        run_s = sum(block.duration_s for block in pairs) / (2 * len(pairs))
        runs = min(runs, rules.budget_s / run_s)
    # All testbeds measure at once, so blocks come in batches.
    shortest = int(whole_batches(MIN_PAIRS, width))
    certify = max(rules.certify_share * runs, float(shortest * rules.certify_arms))
    search = 0 if rules.compares else width * rules.arms
    room = (runs - certify - search) / 2 if runs < math.inf else math.inf
    if room >= rules.max_blocks:
        return rules.max_blocks
    return min(rules.max_blocks, max(shortest, int(room) // width * width))


def _other_load(blocks: Sequence[BlockTimes]) -> Iterator[str]:
    """Warn if others use much of a machine: what they take is the usual cause of noise."""
    rows = [row for block in blocks for row in block.covariates.values()]
    for number, name in enumerate(COVARIATES):
        levels = [row[number] for row in rows if len(row) > number]
        processors = [level for level in levels if level is not None]
        least = _MUCH.get(name.partition("_")[0], math.inf)
        if processors and (mean := fmean(processors)) >= least:
            yield (
                f"{WORDS[name]}: {mean:.2f} processors on average, which makes the measurements "
                "noisy: end what else runs there, or measure at another time"
            )


def _counts(block: BlockTimes, twin: int) -> bool:
    # Earlier versions completed blocks in which the twin had failed.
    is_complete = block.state is BlockState.COMPLETE and twin in block.times_s
    return block.kind is BlockKind.PILOT and is_complete


def _pair(block: BlockTimes, twin: int) -> PilotBlock:
    times, first = block.times_s, block.order[0] == BASELINE
    return PilotBlock(times[BASELINE], times[twin], first, block.duration_s, block.testbed)
