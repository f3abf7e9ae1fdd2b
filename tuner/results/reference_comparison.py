"""Compare the tuned service with the references, and several clients with each other. Pure."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from statistics import fmean

import numpy as np

from tuner.errors import SpecError
from tuner.judge.confidence import bounds
from tuner.judge.evalue import Moments, moments, running_moments
from tuner.judge.levels import ALPHA
from tuner.judge.score import log_scores
from tuner.judge.thresholds import threshold
from tuner.model import BASELINE, Answer, Block, BlockKind, Campaign, PageCache, Recommendation
from tuner.plan.rules import MeasuredWith, Rules, stored_rules
from tuner.plan.scores import times_of
from tuner.records.comparison import Comparison
from tuner.records.estimate import Estimate
from tuner.states import BlockState
from tuner.text import ratio_of


def estimate(differences: Sequence[float], most: int | None) -> Estimate:
    """Ratio estimated from paired log differences, with a 95% interval that is valid at every look.

    ``most``: the maximum number of pairs planned; None if there was no such plan.
    """
    return estimates([differences], most)[0]


def estimates(several: Sequence[Sequence[float]], most: int | None) -> list[Estimate]:
    """Vectorized ``estimate`` for several sets of differences. Sets of equal length are evaluated
    together, because separate calls are slow for very many sets.
    """
    indices: dict[int, list[int]] = defaultdict(list)
    for index, differences in enumerate(several):
        indices[len(differences)].append(index)
    estimates: dict[int, Estimate] = {}
    for count, alike in indices.items():
        m = moments(np.array([several[index] for index in alike], np.float64))
        low, high = bounds(m, threshold(ALPHA, most if most is None or count <= most else None))
        each = zip(alike, m.mean.tolist(), low.tolist(), high.tolist(), strict=True)
        for index, mean, lower, upper in each:
            estimates[index] = Estimate(*map(ratio_of, (mean, lower, upper)))
    return [estimates[index] for index in range(len(several))]


def estimates_along(
    differences: Sequence[float], counts: Sequence[int], most: int | None
) -> list[Estimate]:
    """As ``estimate``, after the first n differences, for each n of ``counts`` (1 or more)."""
    running, last = running_moments(differences), np.asarray(counts) - 1
    m = Moments(*(of[last] for of in (running.n, running.mean, running.variance)))
    estimates = []
    for index, count in enumerate(counts):
        level = threshold(ALPHA, most if most is None or count <= most else None)
        low, high = bounds(Moments(m.n[index], m.mean[index], m.variance[index]), level)
        estimates.append(Estimate(*(ratio_of(float(log)) for log in (m.mean[index], low, high))))
    return estimates


def comparisons(
    blocks: Iterable[Block], rules: Rules, recommendation: Recommendation | None
) -> list[Comparison]:
    """Return the time of the tuned service relative to each reference: with the settings as found
    and, on the fresh blocks only, as recommended. Differences are paired by block, so drift
    cancels.
    """
    baseline, recommended = _Compared("as found"), _Compared("as recommended")
    finalist = None
    if recommendation is not None and recommendation.answer is Answer.RECOMMENDED:
        finalist = recommendation.trial
    clients = 1
    for block in blocks:
        clients = max(clients, *(len(m.clients) for m in block.measurements), 1)
        if block.state is BlockState.COMPLETE:
            baseline.take(block, BASELINE, rules)
            if finalist is not None and block.kind is BlockKind.CERTIFY:
                recommended.take(block, finalist, rules)
    return [*baseline.comparisons(clients), *recommended.comparisons(clients)]


def stored_reference_comparisons(
    campaign: Campaign, blocks: Iterable[Block], measured_with: MeasuredWith | None = None
) -> list[Comparison]:
    """The comparisons of a stored campaign; none if its workload file is gone or has changed.
    ``measured_with``: see ``stored_rules``.
    """
    try:
        rules = stored_rules(campaign, measured_with)
        return comparisons(blocks, rules, campaign.recommendation)
    except (SpecError, KeyError):
        return []


class _Compared:
    """One trial, whose settings are labelled ``settings``, compared with each reference."""

    def __init__(self, settings: str) -> None:
        self._settings = settings
        self._pairs: dict[str, list[float]] = defaultdict(list)
        self._caches: dict[str, set[PageCache | None]] = defaultdict(set)

    def take(self, block: Block, trial: int, rules: Rules) -> None:
        """Add a complete block."""
        arm = next((m for m in block.measurements if m.trial == trial), None)
        if arm is None:
            return
        for run in block.references:
            times = [times_of(of, rules.components) for of in (arm.components, run.components)]
            mine, other = log_scores(times, rules.weights).tolist()
            self._pairs[run.name].append(mine - other)
            self._caches[run.name].add(run.page_cache)

    def comparisons(self, clients: int) -> list[Comparison]:
        """Return the comparisons by reference; ``clients``: how many ran the service's workload."""
        return [
            Comparison(
                reference=name,
                settings=self._settings,
                estimate=estimate(values, None),
                blocks=len(values),
                clients=clients,
                cold=PageCache.NOT_CONTROLLABLE not in self._caches[name],
            )
            for name, values in sorted(self._pairs.items())
        ]


def client_ratios(blocks: Sequence[Block], rules: Rules) -> dict[str, float]:
    """Return, by host, each client's geometric-mean time divided by that of all clients: the mean
    over all measurements of complete blocks with several clients.
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
