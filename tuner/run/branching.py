"""Priors for a new campaign from the results of an earlier one, as guidance for its proposer.

No measurement is reused as evidence: another space, workload or testbed may behave differently.
"""

from __future__ import annotations

from collections.abc import Collection

from tuner.model import BASELINE, Prior
from tuner.plan.rules import Rules
from tuner.plan.scores import ScoreTable
from tuner.results.overview import read_on
from tuner.states import VERDICT_STATES
from tuner.store import Store


def priors(store: Store, campaign: str, rules: Rules, parameters: Collection[str]) -> list[Prior]:
    """Return the trials of ``campaign`` that can guide a campaign with these rules.

    These are the trials that ended after being measured in search blocks, with components of the
    same names, and that set only ``parameters`` (qualified names). Their differences are weighted
    by the rules of the new campaign. With them comes the baseline, to which the differences are: it
    must be known where ``campaign`` is not, after an export or a deletion.
    """
    table = ScoreTable(rules.components, rules.weights, keep_times=False)
    try:
        read_on(table, store, campaign)
    except KeyError:
        return []  # it measured other components
    means = table.means()
    trials = store.trials(campaign)
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
