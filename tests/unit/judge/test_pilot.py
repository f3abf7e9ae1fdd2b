"""The pilot: what it reports about a testbed, when it refuses one, and how often it is wrong."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from tuner.judge.assumptions import Alarm, GuardKind
from tuner.judge.auto_floor import FLOORS
from tuner.judge.pilot import Pilot, PilotBlock, PilotOutcome, PilotRules, assess_pilot
from tuner.judge.power import detectable_effect, predict
from tuner.judge.verdict import Outcome
from tuner.judge.words import minutes_or_hours, probability

RULES = PilotRules(
    weights=(0.6, 0.4),
    delta=0.02,
    floor=0.05,
    max_blocks=20,
    budget_s=10 * 3600.0,
    arms=6,
    certify_blocks=30,
    certify_share=0.25,
    components=("small-read", "large-write"),
)


def pilot_blocks(
    n: int,
    sd: float | tuple[float, float],
    *,
    seed: int = 0,
    difference: float = 0.0,
    first: float = 0.0,
    levels: Sequence[float] | None = None,
    duration_s: float = 120.0,
) -> list[PilotBlock]:
    """Blocks of log-normal times: b is slower by `difference`, the first run by `first`."""
    rng = np.random.default_rng(seed)
    blocks = []
    for index in range(n):
        a_first = bool(rng.random() < 0.5)
        level = 0.0 if levels is None else levels[index]
        a = level + rng.normal(first * a_first, sd, 2)
        b = level + rng.normal(difference + first * (not a_first), sd, 2)
        a_s, b_s = (tuple(np.exp(3.0 + logs).tolist()) for logs in (a, b))
        blocks.append(PilotBlock(a_s, b_s, a_first, duration_s))
    return blocks


@pytest.mark.slow
def test_a_quiet_testbed_is_sound() -> None:
    pilot = assess_pilot(pilot_blocks(12, 0.014), RULES)
    assert pilot.outcome is PilotOutcome.SOUND
    assert pilot.verdict.outcome is Outcome.EQUIVALENT
    assert pilot.verdict.reason.startswith("within 2.0% of its twin: ")
    assert (pilot.refusals, pilot.warnings) == ((), ())
    assert [guard.kind for guard in pilot.guards] == [
        GuardKind.DEPENDENCE,
        GuardKind.BASELINE_DEPENDENCE,
        GuardKind.BASELINE_DRIFT,
    ]


@pytest.mark.slow
def test_noise_is_reported_by_component_and_with_and_without_pairing() -> None:
    levels = np.random.default_rng(1).normal(0.0, 0.2, 200)
    pilot = assess_pilot(
        pilot_blocks(200, (0.02, 0.05), levels=levels.tolist()), replace(RULES, max_blocks=200)
    )
    small, large = pilot.components
    assert (small.name, large.name) == ("small-read", "large-write")
    assert small.sd_difference == pytest.approx(0.02 * math.sqrt(2), rel=0.15)
    assert large.sd_difference == pytest.approx(0.05 * math.sqrt(2), rel=0.15)
    assert large.cv_within == pytest.approx(0.05, rel=0.15)
    assert large.cv == pytest.approx(0.2, rel=0.2)
    both = math.hypot(0.6 * 0.02, 0.4 * 0.05) * math.sqrt(2)
    assert pilot.noise.sd_difference == pytest.approx(both, rel=0.15)


def test_outlook_is_the_power_of_the_certification_that_fits() -> None:
    pilot = assess_pilot(pilot_blocks(12, 0.02), RULES)
    outlook, sd = pilot.outlook, pilot.noise.sd_difference
    assert outlook.run_s == 60.0
    # A quarter of 10 h fits 75 pairs; 30 are enough. The rest fits 75 blocks of 6.
    assert (outlook.certify_blocks, outlook.search_blocks) == (30, 75)
    assert outlook.detectable == pytest.approx(math.expm1(detectable_effect(30, 0.025) * sd))
    ahead = predict(math.log1p(0.02) / sd, 30, 0.025)
    assert outlook.delta == ahead
    assert f"blocks, {ahead.mean_blocks * 2.0:.0f} min)" in outlook.reason
    assert outlook.reason.startswith("30 blocks of certification show an improvement of ")


def test_the_outlook_of_short_runs_is_in_minutes_and_never_certain() -> None:
    pilot = assess_pilot(pilot_blocks(12, 0.002), RULES)
    ahead = pilot.outlook.delta
    assert ahead is not None
    assert ahead.power > 0.995
    assert "one of 2.0% with >99% (on average after " in pilot.outlook.reason
    assert f" blocks, {ahead.mean_blocks * 2.0:.0f} min)" in pilot.outlook.reason
    assert (minutes_or_hours(120.0), minutes_or_hours(5000.0)) == ("2 min", "1.4 h")
    assert (probability(0.8), probability(0.994), probability(1.0)) == ("80%", "99%", ">99%")


def test_a_small_budget_certifies_less_and_a_tiny_one_nothing() -> None:
    blocks = pilot_blocks(12, 0.014)
    small = assess_pilot(blocks, replace(RULES, budget_s=12 * 480.0)).outlook
    assert small.certify_blocks == 12
    assert small.detectable > assess_pilot(blocks, RULES).outlook.detectable
    tiny = assess_pilot(blocks, replace(RULES, budget_s=900.0))
    assert tiny.outcome is PilotOutcome.REFUSED
    assert tiny.outlook.detectable == math.inf
    assert tiny.refusals == ("the budget leaves 1 block for certification, at least 3 are needed",)


def test_a_floor_is_chosen_with_a_warning_if_nothing_can_be_certified() -> None:
    tiny = assess_pilot(pilot_blocks(12, 0.014), replace(RULES, budget_s=900.0, floor=None))
    assert tiny.outcome is PilotOutcome.REFUSED
    assert (tiny.outlook.floor.floor, tiny.outlook.floor.chance) == (FLOORS[-1], 0.0)
    assert tiny.outlook.floor.reason in tiny.warnings
    assert "not even a floor of 50.0% is likely to be shown in 1 block" in tiny.outlook.floor.reason


def test_a_floor_is_chosen_for_the_blocks_that_the_measurements_allow() -> None:
    blocks, auto = pilot_blocks(12, 0.07), replace(RULES, floor=None)
    free = assess_pilot(blocks, auto)
    # A quarter of 32 measurements: 4 blocks of 2.
    limited = assess_pilot(blocks, replace(auto, budget_measurements=32))
    assert "in 30 blocks of certification" in free.outlook.floor.reason
    assert "in 4 blocks of certification" in limited.outlook.floor.reason
    assert limited.outlook.floor.floor > free.outlook.floor.floor
    for component, power in zip(limited.components, limited.outlook.floors, strict=True):
        room = math.log1p(limited.outlook.floor.floor) / component.sd_difference
        assert power == predict(room, 4, RULES.alpha_certify).power
    none = assess_pilot(blocks, replace(auto, budget_measurements=16))
    assert (none.outlook.floor.floor, none.outlook.floors) == (FLOORS[-1], ())
    assert none.outlook.floor.reason in none.warnings


def test_what_can_be_shown_is_limited_by_the_measurements_too() -> None:
    blocks = pilot_blocks(12, 0.04)
    free, limited, tiny = (
        assess_pilot(blocks, replace(RULES, budget_measurements=most)) for most in (None, 32, 16)
    )
    # A quarter of 32 measurements for blocks of 2, and the rest for blocks of the search.
    assert limited.outlook.certify_blocks == 4
    assert limited.outlook.search_blocks == 24 // RULES.arms
    assert limited.outlook.detectable > free.outlook.detectable
    assert limited.outlook.reason.startswith("4 blocks of certification show ")
    # Strictness follows from these, and is not stored: it must stay what it was.
    assert tiny.outlook.floors == limited.outlook.floors == free.outlook.floors != ()
    assert tiny.refusals == ("the budget leaves 2 blocks for certification, at least 3 are needed",)


def test_the_outlook_of_a_comparison_is_what_the_pilot_leaves_of_time_and_measurements() -> None:
    blocks = pilot_blocks(12, 0.04)
    compared = replace(RULES, compares=True, certify_arms=4)
    hour = replace(compared, budget_s=3600.0)
    free, timed, limited, tiny = (
        assess_pilot(blocks, rules)
        for rules in (
            compared,
            hour,
            replace(compared, budget_measurements=44),
            replace(compared, budget_measurements=35),
        )
    )
    # An hour is 60 runs. The pilot took 24; the rest is for blocks of 4, whatever the share is.
    assert [each.outlook.certify_blocks for each in (free, timed, limited, tiny)] == [30, 9, 5, 2]
    assert {each.outlook.search_blocks for each in (free, timed, limited, tiny)} == {None}
    assert limited.outlook.detectable > timed.outlook.detectable > free.outlook.detectable
    assert limited.outlook.reason.startswith("5 blocks of certification show ")
    assert tiny.refusals == ("the budget leaves 2 blocks for certification, at least 3 are needed",)
    # Strictness follows from these, and is not stored: it must stay what it was.
    assert limited.outlook.floors == free.outlook.floors != ()


def test_noise_alone_is_no_reason_to_refuse() -> None:
    noisy = pilot_blocks(20, 0.1, seed=3)
    early = assess_pilot(noisy[:4], RULES)
    assert early.outcome is PilotOutcome.UNDECIDED
    assert early.refusals == ()
    late = assess_pilot(noisy, RULES)
    assert late.outcome is PilotOutcome.SOUND
    assert any("is too small for this noise and budget" in w for w in late.warnings)
    (floors,) = (w for w in late.warnings if w.startswith("the probability that a floor of "))
    assert "large-write (" in floors


@pytest.mark.slow
def test_sound_testbeds_are_seldom_refused_whatever_their_noise() -> None:
    """400 pilots of 20 blocks: at most 5% are refused; 5% plus 3 standard errors are 33."""
    for noise in (0.01, 0.2):
        pilots = [assess_pilot(pilot_blocks(20, noise, seed=seed), RULES) for seed in range(200)]
        refused = sum(p.outcome is PilotOutcome.REFUSED for p in pilots)
        assert refused <= 20


def test_a_baseline_that_differs_from_its_twin_is_refused() -> None:
    pilot = assess_pilot(pilot_blocks(12, 0.014, difference=0.05), RULES)
    assert pilot.outcome is PilotOutcome.REFUSED
    assert pilot.refusals[0].startswith("the baseline differs from its twin although ")
    assert "faster than its twin" in pilot.refusals[0]


def test_strong_dependence_is_refused() -> None:
    """D oscillates slowly: one label is faster for some blocks, then the other."""
    swing = 0.05 * np.sin(np.arange(40) / 3.0)
    blocks = [
        replace(block, b_s=tuple(t * math.exp(swing[i]) for t in block.b_s))
        for i, block in enumerate(pilot_blocks(40, 0.003))
    ]
    pilot = assess_pilot(blocks, replace(RULES, max_blocks=40))
    assert pilot.outcome is PilotOutcome.REFUSED
    assert any(g.kind is GuardKind.DEPENDENCE and g.alarm is Alarm.REFUSE for g in pilot.guards)
    assert any("depend on those of the block before" in refusal for refusal in pilot.refusals)


def test_dependence_is_refused_on_several_testbeds_too() -> None:
    """D oscillates slowly on each testbed, in opposite directions."""
    swing = 0.05 * np.sin(np.arange(20) / 3.0)
    blocks = [
        replace(
            block,
            b_s=tuple(t * math.exp((swing if i % 2 else -swing)[i // 2]) for t in block.b_s),
            testbed="ab"[i % 2],
        )
        for i, block in enumerate(pilot_blocks(40, 0.003))
    ]
    pilot = assess_pilot(blocks, replace(RULES, max_blocks=40))
    assert any("depend on those of the block before" in refusal for refusal in pilot.refusals)


def test_testbeds_of_different_speed_are_no_dependence_of_the_baseline() -> None:
    blocks = [
        replace(block, testbed="ab"[i >= 10])
        for i, block in enumerate(pilot_blocks(20, 0.014, levels=[0.0] * 10 + [0.5] * 10))
    ]
    assert "do not depend" in assess_pilot(blocks, RULES).guards[1].reason


def test_drift_is_reported_and_does_no_harm() -> None:
    pilot = assess_pilot(pilot_blocks(15, 0.014, levels=np.linspace(0.0, 0.3, 15).tolist()), RULES)
    assert pilot.outcome is PilotOutcome.SOUND
    assert pilot.guards[2].value == pytest.approx(0.3, abs=0.03)
    assert pilot.guards[1].value > 0.4
    assert pilot.warnings == ()


def test_warm_up_within_blocks_and_before_them() -> None:
    pilot = assess_pilot(pilot_blocks(15, 0.014, first=0.1), RULES)
    assert pilot.warm_up.shown
    first = r"the first run of a block is (8|9|1[0-2])\.\d% slower than the second: lengthen "
    assert re.match(first, pilot.warm_up.reason)
    assert pilot.warm_up.reason in pilot.warnings
    cold = assess_pilot(pilot_blocks(15, 0.014, levels=[0.4] + [0.0] * 14), RULES)
    first = r"the first block is (4[5-9]|5[0-3])\.\d% slower than the others: lengthen "
    assert re.match(first, cold.warm_up.reason)
    assert not assess_pilot(pilot_blocks(15, 0.014), RULES).warm_up.shown


@pytest.mark.slow
def test_sound_testbeds_are_seldom_refused_and_biased_ones_never_sound() -> None:
    """100 sound pilots of up to 20 blocks: 1 of 100 refused for a difference, 2 for dependence.

    100 with a baseline that is delta slower than itself: at most 5 of 100 shown equivalent (three
    deviations: 6.5 more).
    """

    def final_pilot(seed: int, difference: float) -> Pilot:
        blocks = pilot_blocks(20, 0.014, seed=seed, difference=difference)
        for n in (5, 10, 15):
            pilot = assess_pilot(blocks[:n], RULES)
            if pilot.outcome is not PilotOutcome.UNDECIDED:
                return pilot
        return assess_pilot(blocks, RULES)

    refused = sum(final_pilot(seed, 0.0).outcome is PilotOutcome.REFUSED for seed in range(100))
    sound = sum(
        final_pilot(seed, math.log(1.02)).outcome is PilotOutcome.SOUND for seed in range(100)
    )
    assert refused <= 8
    assert sound <= 11


def test_bad_arguments() -> None:
    blocks = pilot_blocks(5, 0.01)
    with pytest.raises(ValueError, match="at least 3 blocks, got 2"):
        assess_pilot(blocks[:2], RULES)
    with pytest.raises(ValueError, match="block 5: need 2 component times a run"):
        assess_pilot([*blocks, PilotBlock((1.0,), (1.0, 2.0), True, 1.0)], RULES)
    with pytest.raises(ValueError, match="above 0 s"):
        assess_pilot([*blocks, PilotBlock((0.0, 1.0), (1.0, 2.0), True, 1.0)], RULES)
    with pytest.raises(ValueError, match="more than 0 s"):
        assess_pilot(pilot_blocks(5, 0.01, duration_s=0.0), RULES)
    with pytest.raises(ValueError, match="component names"):
        replace(RULES, components=("one",))
    for bad in (
        {"max_blocks": 2},
        {"certify_blocks": 501},
        {"arms": 1},
        {"budget_s": 0.0},
        {"certify_share": 1.0},
        {"delta": 0.0},
        {"alpha_certify": 0.0},
    ):
        with pytest.raises(ValueError, match=r"need|margin|alpha"):
            replace(RULES, **bad)
