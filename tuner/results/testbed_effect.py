"""How much measurements differ between the testbeds of a campaign. Pure."""

from __future__ import annotations

from tuner.judge.testbeds import TestbedEffect, between_testbeds
from tuner.model import BASELINE
from tuner.plan.scores import ScoreTable


def effect_between(table: ScoreTable) -> TestbedEffect | None:
    """Estimate how differences vary between testbeds; None until there is something to compare.

    The blocks of the search and of the certification are pooled.
    """
    differences: dict[int, dict[str, list[float]]] = {}
    for one in table.scored:
        for trial in one.scores.keys() - {BASELINE}:
            by_testbed = differences.setdefault(trial, {})
            difference = one.scores[trial] - one.scores[BASELINE]
            by_testbed.setdefault(one.block.testbed or "", []).append(difference)
    return between_testbeds(differences)
