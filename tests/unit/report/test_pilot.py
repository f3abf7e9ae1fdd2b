"""The page of a pilot: what can be shown comes first."""

from __future__ import annotations

import random
from math import exp

from tests.unit.report.samples import printed
from tuner.judge.pilot import Pilot, PilotBlock, PilotOutcome, PilotRules, assess_pilot
from tuner.report.pilot import pilot_page

RULES = PilotRules(
    weights=(0.5, 0.5),
    delta=0.02,
    floor=0.05,
    max_blocks=20,
    budget_s=7200.0,
    arms=5,
    certify_blocks=20,
    certify_share=0.4,
    components=("write", "read"),
)


def pilot(write: float, read: float) -> Pilot:
    """Of a testbed whose components are that noisy."""
    chance = random.Random(3)

    def run() -> tuple[float, float]:
        return exp(chance.gauss(0.0, write)), exp(chance.gauss(0.0, read))

    return assess_pilot([PilotBlock(run(), run(), n % 2 == 0, 10.0) for n in range(12)], RULES)


def test_a_quiet_testbed_is_called_sound() -> None:
    found = pilot(0.003, 0.003)
    assert found.outcome is PilotOutcome.SOUND
    page = printed(pilot_page(found), 120)
    assert page.startswith("The testbed is sound")
    assert "keeps its floor if it stays as it was: write, read" in page
    assert "not reliably" not in page


def test_a_noisy_testbed_is_not_called_sound() -> None:
    found = pilot(0.5, 0.5)
    assert found.outcome is PilotOutcome.SOUND
    page = printed(pilot_page(found), 120)
    assert page.startswith("Noisy testbed: only improvements of ")
    assert page.index("What can be shown") < page.index("Baseline against itself")
    assert "not reliably: that these keep their floors: write, read" in page


def test_floors_out_of_reach_are_named_first() -> None:
    page = printed(pilot_page(pilot(0.002, 0.2)), 120)
    assert "sound" not in page.splitlines()[0]
    assert "not reliably: that these keep their floors: read" in page
