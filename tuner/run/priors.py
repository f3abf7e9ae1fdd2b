"""Priors for a new campaign from the results of an earlier one, as guidance for its proposer.

No measurement is reused as evidence: another space, workload or testbed may behave differently.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from tuner.errors import OtherComponentsError
from tuner.model import BASELINE, Prior
from tuner.plan.rules import Rules
from tuner.plan.scores import ScoreTable
from tuner.results.overview import read_on
from tuner.states import TrialState
from tuner.store import Store


def priors(store: Store, campaign: str, rules: Rules, parameters: Collection[str]) -> list[Prior]:
    """Return the trials of ``campaign`` that can guide a campaign with these rules.

    These are the trials that were measured in search blocks, with components of the same names,
    that have not failed, and that set only ``parameters`` (qualified names). It does not matter
    whether their tests, or ``campaign``, have ended. Their differences are weighted by the rules of
    the new campaign. With them comes the baseline, to which the differences are: it must be known
    where ``campaign`` is not, after an export or a deletion. Nothing guides a comparison, which
    searches nothing.
    """
    if rules.compares:
        return []
    means = _means(store, campaign, rules)
    trials = store.trials(campaign)
    able = [t for t in trials if all(name in parameters for name, _ in t.configuration)]
    results = [
        Prior(trial.configuration, means[trial.number], f"{campaign}:{trial.number}")
        for trial in able
        if trial.number in means and trial.state is not TrialState.FAILED
    ]
    references = [
        Prior(t.configuration, 0.0, f"{campaign}:{BASELINE}") for t in able if t.number == BASELINE
    ]
    return results + references if results else []


def guiding_trials(guidance: Iterable[Prior]) -> int:
    """Return how many trials guide a search: the baseline is only what they are compared with."""
    return len({prior.configuration for prior in guidance if not prior.is_baseline})


def no_priors(store: Store, campaign: str, rules: Rules) -> str:
    """Return why ``campaign`` has no trials that can guide a campaign with these rules, as a
    clause.
    """
    if rules.compares:
        return "it compares given configurations, and searches nothing"
    means = _means(store, campaign, rules)
    measured = [trial for trial in store.trials(campaign) if trial.number in means]
    if any(trial.state is not TrialState.FAILED for trial in measured):
        return "those that it measured set parameters that are not in the new campaign's spaces"
    if measured:
        return "all that it measured have failed"
    return "it measured none in a search, or with other components of the workload"


def _means(store: Store, campaign: str, rules: Rules) -> dict[int, float]:
    """Return the mean difference of every trial that a campaign has measured in search blocks, as
    rules weight it; none if it measured other components. The baseline is not among them.
    """
    table = ScoreTable(rules.components, rules.weights, keep_times=False)
    try:
        read_on(table, store, campaign)
    except OtherComponentsError:
        return {}
    return table.means()
