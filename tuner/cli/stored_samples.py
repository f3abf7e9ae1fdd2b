"""Load stored trials as samples, and the ``fstune compare`` command that uses them."""

from __future__ import annotations

import math
from pathlib import Path

from tuner.cli.compare import compare_command
from tuner.cli.options import open_store
from tuner.errors import NotFoundError, OtherComponentsError, SpecError
from tuner.model import BASELINE, BlockKind
from tuner.plan.rules import stored_rules
from tuner.plan.scores import ScoreTable
from tuner.report.compare import Sample
from tuner.spec.campaign import CampaignSpec


def load_trial(campaign: str, trial: int, state_dir: Path | None, database: str | None) -> Sample:
    """Return a stored trial's geometric-mean time (s) in each of its complete blocks.

    ``campaign``: identifier, the beginning of one, or ``last``. Raises NotFoundError if there is no
    such campaign or trial, or if the trial was never measured; SpecError if the workload has other
    components now.
    """
    with open_store(state_dir, database) as store:
        record = store.campaign(campaign)
        rules = stored_rules(record)
        try:
            blocks = store.block_times(record.id, rules.components)
        except OtherComponentsError as problem:
            workload = CampaignSpec.from_json(record.spec).workload.name
            raise SpecError(
                f"workload {workload} no longer has the components that campaign {record.id} "
                "measured; restore its file"
            ) from problem
    table = ScoreTable.of(blocks, rules.components, rules.weights)
    scores = [(o.block.number, o.scores[trial]) for o in table.scored if trial in o.scores]
    if not scores:
        raise NotFoundError(f"campaign {record.id} has no measurement of a trial {trial}")
    rest = [one for one in table.scored if one.block.kind is not BlockKind.PILOT]
    others = {number for one in rest for number in one.scores} - {BASELINE}
    return Sample(
        f"{campaign}:{trial}",
        tuple(math.exp(score) for _, score in scores),
        tuple((record.id, number) for number, _ in scores),
        among=len(others),
    )


compare = compare_command(load_trial)
