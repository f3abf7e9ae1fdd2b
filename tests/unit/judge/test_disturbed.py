"""Which arm is measured again, and in which cases none is."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tuner.judge.disturbed import (
    MIN_ARMS,
    MOST_IN_BLOCK,
    DisturbedArm,
    disturbed,
    usual_limits,
)
from tuner.model import COVARIATES


def levels(others: float, stolen: float = 0.0, iowait: float = 0.0) -> tuple[float | None, ...]:
    by_name = {"others_server": others, "stolen_server": stolen, "iowait_server": iowait}
    return tuple(by_name.get(name) for name in COVARIATES)


QUIET = [levels(0.02 + 0.01 * (n % 3)) for n in range(20)]
LIMITS = usual_limits(QUIET)
BLOCK = {0: levels(0.03), 1: levels(0.02), 2: levels(0.05), 3: levels(0.04)}


def arm_to_repeat(block: dict[int, tuple[float | None, ...]], **counts: int) -> DisturbedArm | None:
    return disturbed(block, LIMITS, **({"runs_in_all": 100} | counts))


def test_on_a_quiet_machine_the_minimum_amount_decides() -> None:
    assert dict(zip(COVARIATES, LIMITS, strict=True)) == pytest.approx(
        {
            "others_server": 0.53,
            "others_clients": math.inf,
            "stolen_server": 0.2,
            "stolen_clients": math.inf,
            "iowait_server": math.inf,
            "iowait_clients": math.inf,
        }
    )
    assert arm_to_repeat(BLOCK) is None
    a_bit_busy = {trial: levels(0.06) for trial in BLOCK}
    assert arm_to_repeat(a_bit_busy | {2: levels(0.54)}) is None  # not .5 more than the others
    assert arm_to_repeat(a_bit_busy | {2: levels(0.57)}) is not None
    arm = arm_to_repeat(BLOCK | {2: levels(1.24)})
    assert arm is not None
    assert (arm.trial, arm.covariate, arm.value) == (2, "others_server", 1.24)
    assert arm.reason == (
        "processor time used by others on the server's machine was 1.24 processors, more than 0.53"
    )


def test_the_baseline_too_is_measured_again() -> None:
    arm = arm_to_repeat(BLOCK | {0: levels(0.03, stolen=0.5)})
    assert arm is not None
    assert (arm.trial, arm.covariate) == (0, "stolen_server")


def test_the_most_disturbed_one_comes_first() -> None:
    arm = arm_to_repeat(BLOCK | {1: levels(0.9), 3: levels(1.5)})
    assert arm is not None
    assert arm.trial == 3


def test_load_that_affects_all_arms_equally_disturbs_none() -> None:
    assert arm_to_repeat({trial: levels(1.5) for trial in BLOCK}) is None


def test_the_usual_load_is_no_disturbance() -> None:
    rng = np.random.default_rng(1)
    busy = [levels(level) for level in rng.exponential(0.8, 50)]
    limits = usual_limits(busy)
    assert limits[0] > 2.5
    assert disturbed(BLOCK | {2: levels(1.24)}, limits, runs_in_all=100) is None


def test_waiting_for_disks_does_not_count() -> None:
    assert arm_to_repeat(BLOCK | {2: levels(0.02, iowait=9.0)}) is None


def test_too_few_earlier_arms_give_no_limits() -> None:
    assert set(usual_limits(QUIET[: MIN_ARMS - 1])) == {math.inf}
    assert set(usual_limits([()] * 30)) == {math.inf}
    unknown = [tuple(None for _ in COVARIATES)] * 30
    assert set(usual_limits([*unknown, *QUIET[:5]])) == {math.inf}


def test_arms_without_covariates_are_ignored() -> None:
    block = {0: (), 1: tuple(None for _ in COVARIATES), 2: levels(1.24)}
    assert arm_to_repeat(block) is None  # nothing to compare it with
    assert arm_to_repeat(block | {3: levels(0.02)}) is not None


def test_the_number_of_repeated_measurements_is_limited() -> None:
    block = BLOCK | {2: levels(1.24)}
    assert arm_to_repeat(block, again=MOST_IN_BLOCK) is None
    assert arm_to_repeat(block, again=1) is not None
    assert arm_to_repeat(block, again_in_all=9) is not None
    assert arm_to_repeat(block, again_in_all=10) is None
    assert arm_to_repeat(block, runs_in_all=4) is not None
    assert arm_to_repeat(block, runs_in_all=4, again_in_all=1) is None
