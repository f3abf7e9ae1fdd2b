"""The page of a pilot: detectable effects come first."""

from __future__ import annotations

import random
from dataclasses import replace
from math import exp

import pytest

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


def pilot(write: float, read: float, floor: float | None = 0.05) -> Pilot:
    """Assess a pilot on a testbed whose components have these standard deviations (log units)."""
    chance = random.Random(3)

    def run() -> tuple[float, float]:
        return exp(chance.gauss(0.0, write)), exp(chance.gauss(0.0, read))

    blocks = [PilotBlock(run(), run(), n % 2 == 0, 10.0) for n in range(12)]
    return assess_pilot(blocks, replace(RULES, floor=floor))


def part(page: str, title: str, after: str = "") -> str:
    """Return the text between a title and another one."""
    text = page.partition(f" {title} ")[2]
    return text.partition(f" {after} ")[0] if after else text


def test_a_quiet_testbed_is_called_sound() -> None:
    result = pilot(0.003, 0.003)
    assert result.outcome is PilotOutcome.SOUND
    page = printed(pilot_page(result), 120)
    assert page.startswith("The testbed is sound")
    assert "keeps its floor if it stays as it was: write, read" in page
    assert "not reliably" not in page


def test_a_noisy_testbed_is_not_called_sound() -> None:
    result = pilot(0.5, 0.5)
    assert result.outcome is PilotOutcome.SOUND
    page = printed(pilot_page(result), 120)
    assert page.startswith("Noisy testbed: only improvements of ")
    assert page.index("What can be shown") < page.index("Baseline against its twin")
    assert "not reliably that these keep their floors: write, read" in page


def test_floors_out_of_reach_are_named_first() -> None:
    page = printed(pilot_page(pilot(0.002, 0.2)), 120)
    assert "sound" not in page.splitlines()[0]
    assert "not reliably that these keep their floors: read" in page


@pytest.mark.parametrize("floor", [0.05, None])
def test_what_can_be_shown_names_only_a_floor_that_can_be(floor: float | None) -> None:
    between = ("What can be shown", "Baseline against its twin")
    quiet = part(printed(pilot_page(pilot(0.003, 0.003, floor)), 200), *between)
    assert "10.0% is the smallest floor" in quiet
    assert "'floor: auto' chooses it" in quiet
    page = printed(pilot_page(pilot(0.9, 0.9, floor)), 200)
    assert "80% power" in part(page, *between)
    assert "not even a floor" not in part(page, *between)
    # A floor set in the campaign file has a different warning.
    warning = "not even a floor of 50.0%" if floor is None else "that a floor of 5.0% is shown"
    assert warning in part(page, "Warnings")


def test_the_page_of_a_comparison_mentions_no_search() -> None:
    chance = random.Random(3)
    blocks = [
        PilotBlock((exp(chance.gauss(0.0, 0.01)),) * 2, (1.0, 1.0), n % 2 == 0, 10.0)
        for n in range(12)
    ]
    compared = replace(RULES, compares=True, budget_measurements=36)
    page = printed(pilot_page(assess_pilot(blocks, compared)), 120)
    assert "the budget allows 6 blocks of certification" in page
    assert "of search" not in page
