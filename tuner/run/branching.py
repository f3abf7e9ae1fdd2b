"""Priors for a new campaign from the results of an earlier one, as guidance for its proposer.

No measurement is reused as evidence: another space, workload or testbed may behave differently.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tuner.model import BASELINE, Block, Prior, Trial
from tuner.plan.rules import Rules
from tuner.plan.times import mean_differences
from tuner.states import VERDICT_STATES


def priors(
    campaign: str,
    trials: Sequence[Trial],
    blocks: Sequence[Block],
    rules: Rules,
    parameters: Collection[str],
) -> list[Prior]:
    """Return the trials of ``campaign`` that can guide a campaign with these rules.

    These are the trials that ended after being measured in search blocks, with components of the
    same names, and that set only ``parameters`` (qualified names). Their differences are weighted
    by the rules of the new campaign. With them comes the baseline, to which the differences are: it
    must be known where ``campaign`` is not, after an export or a deletion.
    """
    components = {name for b in blocks for m in b.measurements for name in m.components}
    if components != set(rules.components):
        return []
    means = mean_differences(blocks, rules.components, rules.weights)
    able = [t for t in trials if all(name in parameters for name, _ in t.configuration)]
    results = [
        Prior(trial.configuration, means[trial.number], f"{campaign}:{trial.number}")
        for trial in able
        if trial.number != BASELINE and trial.number in means and trial.state in VERDICT_STATES
    ]
    references = [
        Prior(t.configuration, 0.0, f"{campaign}:{BASELINE}") for t in able if t.number == BASELINE
    ]
    return results + references if results else []
