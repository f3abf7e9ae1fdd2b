"""Hosts over SSH that a campaign loses, or that lose their campaign: they are always restored."""

from __future__ import annotations

import signal
from datetime import datetime, timedelta

import pytest
import yaml

from tests.acceptance.campaigns import (
    SOON,
    campaign,
    goes_on,
    says,
    the,
    wait_for_end,
)
from tests.acceptance.faults import cable_cut, delete_fileserver, hear_nothing, restart
from tests.acceptance.lab import RESTORE, Lab
from tests.acceptance.processes import engine_runs, inside
from tests.waiting import wait_for
from tuner.states import BlockState, CampaignState

pytestmark = [pytest.mark.cell, pytest.mark.slow, pytest.mark.timeout(400)]


def test_hosts_whose_controller_was_killed_put_themselves_back(lab: Lab) -> None:
    lab.workload(linger_s=3)
    with lab.running("run", str(lab.directory / "campaign.yaml")) as process:
        says(lab, process, "block 1, ")
        wait_for(lambda: engine_runs(lab.clients[0]), "the next workload")
        process.kill()
    assert lab.left(files=False) != []
    hear_nothing(lab)
    lab.restore(files=False)
    before = lab.load()
    assert before.campaign.state is CampaignState.RUNNING
    assert before.measured != {}
    with campaign(lab, "resume") as process:
        says(lab, process, "block 2, ")
    after = lab.load()
    assert before.measured.items() <= after.measured.items()
    assert after.blocks[0].state is BlockState.VOID


def test_a_campaign_that_was_killed_while_its_server_was_changed_can_be_resumed(lab: Lab) -> None:
    with lab.running("run", str(lab.directory / "campaign.yaml")) as process:
        says(lab, process, "block 1, ")
        process.kill()
    delete_fileserver(lab)
    goes_on(lab, lab.load())


def test_a_server_that_was_rebooted_is_restored_outside_the_hours(lab: Lab) -> None:
    """No watch runs there any more, and whoever works there by day would get a trial's options."""
    lab.workload(linger_s=3)
    journal = inside(lab.server, RESTORE) / "restore" / "fileserver"
    with lab.running("run", str(lab.directory / "campaign.yaml")) as process:
        says(lab, process, "block 1, ")
        wait_for(journal.exists, "a change of the server")
        process.kill()
    restart(lab, lab.server)
    file = lab.testbed()
    start = datetime.now().astimezone() + timedelta(hours=2)
    hours = {"start": f"{start:%H:%M}", "end": f"{start + timedelta(hours=1):%H:%M}"}
    file.write_text(yaml.safe_dump(yaml.safe_load(file.read_text()) | {"hours": hours}))
    before = lab.load()
    with campaign(lab, "resume") as process:
        says(lab, process, "this process continues the campaign at")
        assert not journal.exists()
        assert lab.programs()["server"] == lab.original["server"]
    assert lab.load().of("restored")[0].message.startswith("fileserver on 10.77.0.1 ")
    lab.restore(files=False)
    lab.testbed()
    goes_on(lab, before)


def test_without_its_hosts_a_campaign_ends_and_goes_on_later(lab: Lab) -> None:
    lab.testbed(after=SOON)
    with campaign(lab) as process:
        says(lab, process, "block 1, ")
        with cable_cut(lab):
            records = wait_for_end(lab, process)
            lab.restore(files=False)  # the hosts restore themselves
    assert the(records.of("campaign-failed")).data["failure"] == "transport"
    assert records.measured != {}
    assert "fstune resume" in lab.output
    with campaign(lab, "resume") as process:
        says(lab, process, "block 3, ")
    assert records.measured.items() <= lab.load().measured.items()


@pytest.mark.parametrize("which", ["server", "client"])
def test_a_host_that_reboots_ends_the_campaign_which_can_be_resumed(lab: Lab, which: str) -> None:
    """It is unknown what else has changed with the reboot."""
    lab.workload(linger_s=3)
    with campaign(lab) as process:
        says(lab, process, "block 1, ")
        wait_for(lambda: engine_runs(lab.clients[0]), "the next workload")
        restart(lab, lab.server if which == "server" else lab.clients[1])
        records = wait_for_end(lab, process)
    assert "was restarted while it was in use" in records.campaign.reason
    assert the(records.of("campaign-failed")).data["failure"] == "testbed"
    assert len(records.of("restored")) == 2
    lab.restore(files=False)
    goes_on(lab, records)


def test_putting_back_by_hand_ends_a_campaign_that_runs(lab: Lab) -> None:
    lab.workload(linger_s=3)
    with campaign(lab) as process:
        says(lab, process, "block 1, ")
        result = lab.fstune("testbed", "restore", str(lab.directory / "testbed.yaml"))
        assert result.returncode == 0, result.stdout + result.stderr
        records = wait_for_end(lab, process)
        # A watch checks every second, and then ends.
        wait_for(lambda: lab.left(files=False) == [], "the end of the watches")
    assert "has restored itself" in records.campaign.reason
    again = lab.fstune("testbed", "restore", str(lab.directory / "testbed.yaml"))
    assert again.stdout.count("nothing to restore") == 3
    goes_on(lab, records)


def test_a_controller_that_was_asleep_changes_nothing_when_it_wakes_up(lab: Lab) -> None:
    lab.workload(linger_s=3)
    with campaign(lab) as process:
        says(lab, process, "block 1, ")
        wait_for(lambda: engine_runs(lab.clients[0]), "the next workload")
        process.send_signal(signal.SIGSTOP)
        hear_nothing(lab)
        lab.restore(files=False, runs=False)  # the hosts restore themselves during a run
        process.send_signal(signal.SIGCONT)
        records = wait_for_end(lab, process)
        # A watch checks every second, and then ends.
        wait_for(lambda: lab.left(files=False) == [], "the end of the watches")
    assert "has restored itself" in lab.output
    goes_on(lab, records)
