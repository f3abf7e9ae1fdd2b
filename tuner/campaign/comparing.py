"""What was measured beside the arms, as numbers to show: references, and clients among each other.
Pure.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from statistics import fmean

import numpy as np

from tuner.campaign.rules import ALPHA, Rules, stored_rules
from tuner.campaign.times import times_of
from tuner.errors import SpecError
from tuner.judge.confidence import bounds
from tuner.judge.evalue import moments
from tuner.judge.score import log_scores
from tuner.judge.thresholds import threshold
from tuner.model import BASELINE, Answer, Block, BlockKind, Campaign, PageCache, Recommendation
from tuner.report.beside import Comparison
from tuner.report.drawing import Estimate
from tuner.states import BlockState


def estimate(differences: Sequence[float], most: int | None) -> Estimate:
    """The ratio that paired log differences show, with its interval of 95 %, valid however often it
    is looked at. ``most``: so many pairs at most were planned, None when there was no such plan.
    """
    m = moments(np.asarray(differences))
    level = threshold(ALPHA, most if most is None or len(differences) <= most else None)
    low, high = bounds(m, level)
    return Estimate(math.exp(float(m.mean)), _exp(float(low)), _exp(float(high)))


def _exp(value: float) -> float:
    return math.inf if value > 700.0 else math.exp(value)


def comparisons(
    blocks: Sequence[Block], rules: Rules, recommendation: Recommendation | None
) -> list[Comparison]:
    """How many times as long the tuned service takes as each reference: as found, and as
    recommended on the fresh blocks alone. Differences are paired by block, so drift cancels.
    """
    clients = max((len(m.clients) or 1 for b in blocks for m in b.measurements), default=1)
    found = _compared(blocks, rules, BASELINE, "as found", clients)
    if recommendation is not None and recommendation.answer is Answer.RECOMMENDED:
        fresh = [block for block in blocks if block.kind is BlockKind.CERTIFY]
        found += _compared(fresh, rules, recommendation.trial, "as recommended", clients)
    return found


def stored_comparisons(campaign: Campaign, blocks: Sequence[Block]) -> list[Comparison]:
    """The comparisons of a stored campaign; none when its workload's file is gone, or is another
    one now.
    """
    if not any(block.references for block in blocks):
        return []
    try:
        return comparisons(blocks, stored_rules(campaign), campaign.recommendation)
    except (SpecError, KeyError):
        return []


def _compared(
    blocks: Sequence[Block], rules: Rules, trial: int, settings: str, clients: int
) -> list[Comparison]:
    pairs: dict[str, list[float]] = defaultdict(list)
    caches: dict[str, set[PageCache | None]] = defaultdict(set)
    for block in blocks:
        arm = next((m for m in block.measurements if m.trial == trial), None)
        if block.state is not BlockState.COMPLETE or arm is None:
            continue
        for run in block.references:
            times = [times_of(of, rules.components) for of in (arm.components, run.components)]
            mine, other = log_scores(times, rules.weights).tolist()
            pairs[run.name].append(mine - other)
            caches[run.name].add(run.page_cache)
    return [
        Comparison(
            reference=name,
            settings=settings,
            estimate=estimate(values, None),
            blocks=len(values),
            clients=clients,
            cold=PageCache.NOT_CONTROLLABLE not in caches[name],
        )
        for name, values in sorted(pairs.items())
    ]


def client_ratios(blocks: Sequence[Block], rules: Rules) -> dict[str, float]:
    """For each of several clients its geometric-mean time over that of all of them, by host: the
    mean over all measurements of complete blocks.
    """
    logs: dict[str, list[float]] = defaultdict(list)
    for block in blocks:
        if block.state is not BlockState.COMPLETE:
            continue
        for measurement in block.measurements:
            if not measurement.clients:
                continue
            times = [times_of(own, rules.components) for own in measurement.clients.values()]
            scores = log_scores(times, rules.weights).tolist()
            middle = fmean(scores)
            for host, score in zip(measurement.clients, scores, strict=True):
                logs[host].append(score - middle)
    return {host: math.exp(fmean(values)) for host, values in sorted(logs.items())}
