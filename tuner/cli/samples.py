"""Stored trials as samples of numbers, for comparing."""

from __future__ import annotations

import math
from pathlib import Path

from tuner.campaign.runner import rules_of
from tuner.campaign.spec import CampaignSpec
from tuner.campaign.times import component_times
from tuner.cli.options import state_directory
from tuner.errors import NotFoundError
from tuner.judge.score import log_scores
from tuner.measure.workload import load_workload
from tuner.report.compare import Sample
from tuner.states import BlockState
from tuner.store import Store


def load_trial(campaign: str, trial: int, state_dir: Path | None) -> Sample:
    """The geometric-mean time (s) of a stored trial in each of its complete blocks.

    ``campaign``: identifier, the beginning of one, or ``last``. Raises NotFoundError when there is
    no such campaign or trial, or it was never measured.
    """
    with Store.open(state_directory(state_dir)) as store:
        found = store.campaign(campaign)
        blocks = store.blocks(found.id)
    spec = CampaignSpec.from_json(found.spec)
    rules = rules_of(spec, load_workload(spec.workload.name, spec.workload.scale))
    values: list[float] = []
    measured_in: list[tuple[str, int]] = []
    for block in blocks:
        if block.state is not BlockState.COMPLETE:
            continue
        for measurement in block.measurements:
            if measurement.trial == trial:
                score = log_scores(component_times(measurement, rules.components), rules.weights)
                values.append(math.exp(float(score)))
                measured_in.append((found.id, block.number))
    if not values:
        raise NotFoundError(f"campaign {found.id} has no measurement of a trial {trial}")
    return Sample(f"{campaign}:{trial}", tuple(values), tuple(measured_in))
