"""Faults on hosts over SSH while a campaign uses them: each time the hosts are restored."""

from __future__ import annotations

import pytest
import yaml

from tests.acceptance.campaigns import (
    campaign,
    says,
    says_void,
    the,
    wait_for_end,
)
from tests.acceptance.faults import another_fileserver, drop_connections, hanging, standing_in
from tests.acceptance.lab import Lab
from tests.acceptance.processes import engine_runs
from tests.integration.conftest import process_in
from tests.waiting import wait_for
from tuner.states import BlockState

pytestmark = [pytest.mark.cell, pytest.mark.slow, pytest.mark.timeout(400)]


def test_a_read_back_that_hangs_fails_its_arm(lab: Lab) -> None:
    """The connection is fine and the fileserver runs, but a query is not answered."""
    hangs_once = (
        "#!/bin/sh\n"
        "mkdir /fstune/hung 2> /dev/null && exec sleep 600\n"
        'PATH=/usr/sbin:/usr/bin exec xstat_fs_test "$@"\n'
    )
    with standing_in(lab.server, "xstat_fs_test", hangs_once), campaign(lab) as process:
        says(lab, process, "the fileserver does not answer: 10.77.0.1: xstat_fs_test")
        says(lab, process, "baseline: writing")
    records = lab.load()
    failed = [*records.of("trial-failed"), *records.of("block-void")][0]
    assert failed.data["failure"] == "configuration"
    assert failed.data["host"] == "10.77.0.1"
    assert str(failed.data["command"]).startswith("xstat_fs_test 10.77.0.1 -onceonly -collID")


def test_a_workload_on_one_client_outlives_its_connection(lab: Lab) -> None:
    lab.testbed(clients=1)
    lab.workload(linger_s=3)
    client = lab.clients[0]
    with campaign(lab) as process:
        wait_for(lambda: engine_runs(client), "the workload")
        drop_connections(client)
        says(lab, process, "block 1 ")
    records = lab.load()
    assert records.blocks[0].state is BlockState.COMPLETE
    assert len(records.blocks[0].measurements) == 2
    assert client.run(["ls", "-A", "/var/tmp/fstune-0"]).stdout == b""


def test_a_workload_on_two_clients_is_ended_when_one_is_lost(lab: Lab) -> None:
    lab.workload(linger_s=30)
    with campaign(lab) as process:
        wait_for(lambda: engine_runs(lab.clients[1]), "the workload")
        drop_connections(lab.clients[1])
        says(lab, process, "block 1 void")
        assert not any(engine_runs(client) for client in lab.clients)
        lab.workload()
    void = lab.load().of("block-void")[0]
    assert void.data["failure"] == "transport"
    assert "workloads.pyz run" in str(void.data["command"])


def test_a_full_disk_on_a_client_voids_the_run(lab: Lab) -> None:
    client = lab.clients[1]
    resize = ["mount", "--options"]
    with campaign(lab) as process:
        says(lab, process, "block 1, ")
        client.check([*resize, "remount,size=1m", "/var/cache/openafs"])
        try:
            number = says_void(lab, process)
        finally:
            client.check([*resize, "remount,size=50%", "/var/cache/openafs"])
        says(lab, process, f"block {number + 1}, ")
    void = lab.load().of("block-void")[0]
    assert void.data["failure"] == "workload"
    assert void.data["exit_status"] == 3


@pytest.mark.parametrize("program", ["dafileserver", "afsd.fuse"])
def test_a_program_that_is_killed_during_the_workload_costs_one_run(lab: Lab, program: str) -> None:
    """bosserver restarts the fileserver; the campaign has to mount the client again."""
    lab.workload(linger_s=3)
    with campaign(lab) as process:
        wait_for(lambda: engine_runs(lab.clients[0]), "the workload")
        host = lab.server if program == "dafileserver" else lab.clients[0]
        process_there = process_in(host, program)
        assert process_there is not None
        process_there.kill()
        says(lab, process, ": the run failed and is repeated: ")
        says(lab, process, "block 1 complete")
    records = lab.load()
    failed = the(records.of("run-failed"))
    assert failed.data["failure"] == "workload"
    assert records.blocks[0].state is BlockState.COMPLETE
    assert len(records.blocks[0].measurements) == 2


def test_a_fileserver_that_hangs_at_its_start_fails_its_trial(lab: Lab) -> None:
    fileserver = lab.original["server"][0]
    with hanging(lab.server, fileserver, "-p 20"), campaign(lab) as process:
        says(lab, process, "trial 1 failed: the fileserver does not start within 30 s")
        says(lab, process, "baseline: writing")
    failed = the(lab.load().of("trial-failed"))
    assert failed.data["failure"] == "configuration"
    assert failed.data["host"] == "10.77.0.1"
    assert str(failed.data["command"]).endswith(" -p 20")


def test_a_client_mount_that_hangs_fails_its_trial(lab: Lab) -> None:
    lab.campaign([{"cache_manager.daemons": 4}])
    # The program is called by its full path, but ``timeout``, which starts it, is not.
    hangs = (
        "#!/bin/sh\n"
        'case " $* " in *" -daemons "*) exec /usr/bin/timeout --foreground 20 sleep 600 ;; esac\n'
        'exec /usr/bin/timeout "$@"\n'
    )
    with standing_in(lab.clients[1], "timeout", hangs), campaign(lab) as process:
        says(lab, process, "trial 1 failed: the cache manager does not start")
        says(lab, process, "baseline: writing")
    failed = the(lab.load().of("trial-failed"))
    assert failed.data["failure"] == "configuration"
    assert failed.data["exit_status"] == 4
    assert failed.data["host"] == "10.77.0.12"


def test_a_path_that_leads_to_another_server_ends_the_campaign(lab: Lab) -> None:
    """The fileserver has the volume that the file names, but the clients write elsewhere."""
    file = lab.directory / "testbed.yaml"
    document = yaml.safe_load(file.read_text())
    document["path"] = "/afs/.:mount/fstune.test:elsewhere"
    file.write_text(yaml.safe_dump(document))
    with another_fileserver(lab, "elsewhere"), campaign(lab) as process:
        records = wait_for_end(lab, process)
    assert the(records.of("campaign-failed")).data["failure"] == "testbed"
    assert "10.77.0.1 was not used: the workload wrote " in records.campaign.reason
    assert "does the path lead to another volume" in records.campaign.reason
    assert records.measured == {}
    lab.restore()
