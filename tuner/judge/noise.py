"""The noise report: how much each measure against noise reduces the variance of a difference. Pure.

The quantity is always the variance of the log ratio of two runs of equal configurations: twice that
of one run. Runs also differ by their configurations, so the mean of each trial is subtracted first;
for paired differences, the mean of each block as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from tuner.judge.adjustment import Adjustment
from tuner.judge.evalue import Floats, Ints
from tuner.judge.noise_records import NoiseLevel, NoiseMeasure, NoiseReport
from tuner.judge.observations import Rows, means
from tuner.judge.score import checked_weights

MIN_FREEDOM: Final = 8
"""Minimum degrees of freedom for a variance that is worth reporting."""


def noise_report(
    trial: Ints,
    block: Ints,
    logs: Floats,
    first: Floats,
    weights: Sequence[float],
    adjustment: Adjustment,
) -> NoiseReport | None:
    """Report the effect of each measure; None if there is too little repetition to tell.

    trial, block: (arms,), of each arm of complete blocks. logs: (arms, components), log times;
    first: the same, but with the first measurement of arms that were measured again. weights: of
    the score. adjustment: fitted to the same arms; only the ratio of its held-out variances with
    and without it is used.
    """
    numbers, of_trial = np.unique(trial, return_inverse=True)
    _, of_block = np.unique(block, return_inverse=True)
    order = np.argsort(of_block, kind="stable")
    of_trial, of_block = of_trial[order], of_block[order]
    row = checked_weights(weights, logs.shape[1])
    after, before = (np.column_stack([x @ row, x])[order] for x in (logs, first))
    rows = Rows(of_trial, of_block, after, np.empty((len(after), 0)), numbers)
    if rows.freedom < MIN_FREEDOM:
        return None
    alone = before - means(before, of_trial)[of_trial]
    raw = 2.0 * (alone**2).sum(axis=0) / (len(after) - len(numbers))
    paired, again = (
        2.0 * (rows.within(each) ** 2).sum(axis=0) / rows.freedom for each in (before, after)
    )
    ratios = [
        one.variance_with / one.variance_without if one.used else 1.0
        for one in (adjustment.score, *adjustment.components)
    ]
    values = {
        NoiseMeasure.RAW: raw,
        NoiseMeasure.PAIRED: paired,
        NoiseMeasure.AGAIN: again,
        NoiseMeasure.ADJUSTED: again * np.array(ratios),
    }
    if not raw[0] > 0.0:
        return None
    return NoiseReport(
        tuple(
            NoiseLevel(measure, float(v[0]), tuple(v[1:].tolist()), float(v[0] / raw[0]))
            for measure, v in values.items()
        ),
        arms=len(after),
        freedom=rows.freedom,
        again=int((after != before).any(axis=1).sum()),
        adjustment=adjustment.score.reason,
    )
