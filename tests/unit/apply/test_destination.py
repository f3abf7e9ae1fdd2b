"""Applications run on the testbed they were planned for, even if the workload is missing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import workloads
from tests.recommending import recommending
from tests.unit.apply.conftest import CANDIDATE, ORIGINAL, Desk
from tests.unit.campaign.campaigns import spec
from tuner.apply.actor import finish
from tuner.apply.applying import carry_out, roll_back
from tuner.apply.destination import Destination
from tuner.errors import ConflictError, SpecError
from tuner.states import ApplicationState


@pytest.mark.slow
@pytest.mark.parametrize("use", [carry_out, finish, roll_back])
def test_a_testbed_file_that_names_another_testbed_is_refused(desk: Desk, use: object) -> None:
    assert callable(use)
    campaign = desk.campaign(name="here")
    planned = desk.plan(campaign)
    with pytest.raises(ConflictError, match="is for elsewhere, but its testbed file now names"):
        use(desk.actor, replace(planned, testbed="elsewhere"))
    assert desk.actor.applications.get(planned.id).state is ApplicationState.PLANNED
    assert desk.in_force(campaign) == ORIGINAL


@pytest.mark.slow
def test_a_rollback_does_not_need_the_workload(desk: Desk, tmp_path: Path) -> None:
    file = tmp_path / "own.yaml"
    packaged = Path(workloads.__file__).with_name("office.yaml")
    file.write_text(packaged.read_text())
    campaign_spec = spec(found=ORIGINAL, workload=str(file))
    campaign = recommending(desk.store, campaign_spec, ORIGINAL, CANDIDATE)
    applied = desk.apply(campaign)
    file.unlink()
    assert roll_back(desk.actor, applied).state is ApplicationState.ROLLED_BACK
    with pytest.raises(SpecError, match=r"own\.yaml"):
        Destination.of_application(campaign, applied, desk.directory, measures=True)
