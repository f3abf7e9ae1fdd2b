"""Campaigns on a real cell: bad configurations, kill -9 and Ctrl-C leave nothing behind."""

from __future__ import annotations

import json
import signal

import pytest
import yaml

from tests.acceptance.conftest import Place
from tests.unit.campaign.outcomes import measured
from tests.waiting import wait_for_line
from tuner.states import BlockState, CampaignState, TrialState

pytestmark = [pytest.mark.cell, pytest.mark.slow, pytest.mark.timeout(400)]


def compare(place: Place, configurations: dict[str, dict[str, dict[str, int]]]) -> None:
    """Turn the campaign into a comparison with the baseline, as short as possible: three blocks."""
    document = yaml.safe_load(place.campaign_file.read_text())
    for key in ("first", "search", "pilot"):
        del document[key]
    document |= {"compare": configurations, "certification": {"blocks": 3}}
    place.campaign_file.write_text(yaml.safe_dump(document))


def test_bad_configurations_fail_with_their_reason_and_the_campaign_ends(place: Place) -> None:
    result = place.fstune("run", str(place.campaign_file))
    assert result.returncode == 0, result.stdout + result.stderr
    campaign, trials, blocks, events = place.load()
    assert campaign.state is CampaignState.FINISHED
    assert campaign.recommendation is not None

    assert [t.state for t in trials[1:3]] == [TrialState.FAILED, TrialState.FAILED]
    assert "does not start" in trials[1].reason
    assert "udp_buffer = 268435456 is not in effect" in trials[2].reason
    assert trials[3].state in (TrialState.COMPLETE, TrialState.PRUNED)
    assert all(reason in result.stdout for reason in (trials[1].reason, trials[2].reason))

    assert len(measured(blocks)) >= 6
    assert not any(m.trial in (1, 2) for b in blocks for m in b.measurements)
    actions = [m.actions for b in blocks for m in b.measurements]
    assert sum("fileserver restart" in taken for taken in actions) >= 5
    for block in blocks:
        for measurement in block.measurements:
            assert measurement.effective == measurement.requested
            assert measurement.apply_s > 0.0
            assert all(c.elapsed_s > 0.0 for c in measurement.components.values())

    closed = [e.message for e in events if e.kind == "testbed-closed"]
    assert closed == [f"private cell {place.cell} taken down"]
    assert place.left_behind() == []
    answer = json.loads(place.fstune("recommend", "--format", "json").stdout)
    assert campaign.recommendation.answer in json.dumps(answer)


def test_interrupted_then_killed_it_is_resumed_and_loses_no_measurement(place: Place) -> None:
    # It is still running after the first block and after the second.
    compare(place, {"more threads": {"fileserver": {"threads": 20}}})
    with place.start("run", str(place.campaign_file)) as process:
        wait_for_line(process, "block 1, ")
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate()
    assert process.returncode == 130
    campaign, _, blocks, _ = place.load()
    assert campaign.state is CampaignState.PAUSED
    assert f"continue with: fstune resume {campaign.id}" in output
    assert "restarted as found" in output
    assert "afsd.fuse on client1 left as found" in output  # its settings were the same
    assert f"private cell {place.cell} taken down" in output
    assert place.left_behind() == []
    before_interrupt = measured(blocks)
    void = [b.number for b in blocks if b.state is BlockState.VOID]

    with place.start("resume") as process:
        wait_for_line(process, f"block {len(blocks) + 1}, ")
        process.kill()
    assert process.returncode == -signal.SIGKILL
    campaign, _, blocks, _ = place.load()
    assert campaign.state is CampaignState.RUNNING
    before_kill = measured(blocks)
    assert before_interrupt.items() < before_kill.items()
    cut_off = [b.number for b in blocks if b.state is BlockState.RUNNING]
    assert place.left_behind() != []

    result = place.fstune("resume")
    assert result.returncode == 0, result.stdout + result.stderr
    campaign, _, blocks, _ = place.load()
    assert campaign.state is CampaignState.FINISHED
    assert before_kill.items() <= measured(blocks).items()
    reasons = {b.number: b.reason for b in blocks if b.state is BlockState.VOID}
    assert list(reasons) == void + cut_off, reasons
    assert place.left_behind() == []
