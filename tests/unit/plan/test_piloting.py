"""What the pilot warns of besides its own assessment."""

from __future__ import annotations

import pytest

from tuner.judge.pilot import PilotRules
from tuner.model import BASELINE, BlockKind, BlockTimes, Configuration, Trial
from tuner.plan.piloting import TWIN_ORIGIN, plan_pilot
from tuner.states import BlockState, TrialState

TWIN = Trial(1, Configuration(), 0, TWIN_ORIGIN, TrialState.RUNNING)
RULES = PilotRules(
    weights=(1.0,),
    delta=0.05,
    floor=0.25,
    max_blocks=8,
    budget_s=3600.0,
    arms=9,
    certify_blocks=20,
    certify_share=0.3,
    certify_arms=2,
    alpha_certify=0.015,
    floor_alpha=0.2,
    components=("read",),
)


def warnings(*levels: tuple[float | None, ...]) -> list[str]:
    """The warnings of other load after a block of two arms for each of these levels."""
    blocks = [
        BlockTimes(
            number,
            BlockKind.PILOT,
            0,
            (BASELINE, 1),
            BlockState.COMPLETE,
            10.0,
            "",
            None,
            {BASELINE: (1.0 + 0.01 * number,), 1: (1.02,)},
            covariates={BASELINE: level, 1: level},
        )
        for number, level in enumerate(levels, start=1)
    ]
    assessment = plan_pilot([TWIN], blocks, RULES).assessment
    assert assessment is not None
    return [each for each in assessment.warnings if "processors on average" in each]


@pytest.mark.parametrize("quiet", [(), (0.1, 0.1, 0.05, 0.05, 3.0, 3.0), (None,) * 6])
def test_a_quiet_machine_is_no_reason_to_warn(quiet: tuple[float | None, ...]) -> None:
    assert warnings(quiet, quiet, quiet) == []


def test_other_load_is_named_with_the_machine_and_what_to_do() -> None:
    busy = (1.2, None, 0.02, 0.3, 0.0, 0.0)
    calm = (0.6, 0.1, 0.02, 0.0, 0.0, 0.0)
    others, stolen = warnings(busy, busy, calm)
    assert others.startswith(
        "processor time used by others on the server's machine: 1.00 processors on average, which "
    )
    assert others.endswith("end what else runs there, or measure at another time")
    assert stolen.startswith("time stolen from the clients' machines: 0.20 processors on average")
