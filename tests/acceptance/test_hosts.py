"""Campaigns on hosts by SSH, and what can go wrong with hosts: each time they are put back."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from deploy.cell import Cells, ssh
from tests.acceptance.lab import (
    Lab,
    Labs,
    Stored,
    engine_runs,
    make_key,
    wait_for,
)
from tests.integration.conftest import process_in
from tests.security.local_users import OPTIONS, decoy, of_root, trap
from tuner.model import Event
from tuner.states import BlockState, CampaignState

pytestmark = [pytest.mark.cell, pytest.mark.slow, pytest.mark.timeout(400)]

THREADS = {"fileserver.threads": 20}
#: Hosts that hear nothing for so long put themselves back; a lost connection shows in a fraction.
SOON = "20s"


@pytest.fixture(scope="module")
def hosts(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Labs]:
    labs = Labs(Cells(root / "build" / "test-state"), lambda: tmp_path_factory.mktemp("lab"))
    try:
        yield labs
    finally:
        labs.close()


@pytest.fixture
def lab(hosts: Labs) -> Iterator[Lab]:
    """The hosts, as they were found before and after."""
    lab = hosts.fit()
    lab.testbed()
    lab.workload()
    lab.campaign([THREADS])
    yield lab
    lab.put_back()


def test_a_campaign_by_ssh_ends_with_its_answer_and_all_put_back(lab: Lab) -> None:
    checked = lab.fstune("testbed", "check", str(lab.directory / "testbed.yaml"), "--dry-run")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "Nothing speaks against a campaign here." in checked.stdout
    assert "10.77.0.1: bos stop 10.77.0.1 dafs -wait -localauth" in checked.stdout
    planned = lab.fstune("campaign", "check", str(lab.directory / "campaign.yaml"))
    assert planned.returncode == 0, planned.stdout + planned.stderr
    assert "10.77.0.1: bos stop 10.77.0.1 dafs -wait -localauth" in planned.stdout
    for node in (lab.server, *lab.clients):
        assert node.run(["ls", "-A", "/var/lib/fstune-restore"]).stdout == b""
    assert lab.left() == []

    lab.campaign([THREADS], blocks=3)
    result = lab.fstune("run", str(lab.directory / "campaign.yaml"))
    assert result.returncode == 0, result.stdout + result.stderr
    stored = lab.stored()
    assert stored.campaign.state is CampaignState.FINISHED
    assert stored.campaign.recommendation is not None
    assert len(stored.measured) >= 6
    for block in stored.blocks:
        for measurement in block.measurements:
            assert measurement.effective == measurement.requested
            assert measurement.clients.keys() == {"10.77.0.11", "10.77.0.12"}
            assert all(c.elapsed_s > 0.0 for c in measurement.components.values())
    assert len(stored.of("restored")) == 2


def test_processes_of_a_local_user_on_a_client_change_nothing(lab: Lab) -> None:
    """Of whoever calls theirs afsd.fuse: neither believed, nor run, nor taken for put back."""
    node, other = lab.clients
    lab.campaign([{"cache_manager.daemons": 5}], blocks=3)
    with trap(node) as (program, proof), decoy(node, (program, *OPTIONS, "-daemons", "9")):
        result = lab.fstune("run", str(lab.directory / "campaign.yaml"))
        assert result.returncode == 0, result.stdout + result.stderr
        assert not proof.exists()
        assert of_root(node, "afsd.fuse") == of_root(other, "afsd.fuse")
    assert len(lab.stored().measured) >= 6


@contextmanager
def campaign(lab: Lab, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A campaign under way; given back, as by Ctrl-C, if it has not ended by itself."""
    words = arguments or ("run", str(lab.directory / "campaign.yaml"))
    with lab.running(*words) as process:
        yield process
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            # It may have come to its end by itself just before.
            ended = {130: CampaignState.PAUSED, 0: CampaignState.FINISHED}
            status = process.wait(150.0)
            assert lab.stored().campaign.state is ended.get(status), lab.said


def says(lab: Lab, process: subprocess.Popen[str], words: str) -> None:
    """Wait until a campaign has printed this."""
    wait_for(lambda: words in lab.said or process.poll() is not None, words)
    assert words in lab.said, lab.said


def says_void(lab: Lab, process: subprocess.Popen[str]) -> int:
    """Wait until a campaign has said that a block is void; its number. It is a later one than was
    under way when somebody began to meddle, if that had its end just then.
    """
    says(lab, process, " void")
    return next(b.number for b in lab.stored().blocks if b.state is BlockState.VOID)


def ended(lab: Lab, process: subprocess.Popen[str]) -> Stored:
    """Wait for the end of a campaign whose hosts fail it."""
    assert process.wait(250.0) == 6, lab.said
    stored = lab.stored()
    assert stored.campaign.state is CampaignState.FAILED
    return stored


def the(events: Sequence[Event]) -> Event:
    (event,) = events
    return event


def test_a_connection_cut_during_a_restart_voids_the_block(lab: Lab) -> None:
    with lab.slow(lab.server, "bos", "create") as gate, campaign(lab) as process:
        lab.meets(gate)
        lab.drop_connections(lab.server)
        gate.unlink()
        says(lab, process, "block 2, ")
    void = lab.stored().of("block-void")[0]
    assert void.data["failure"] == "transport"
    assert str(void.data["command"]).startswith("bos create 10.77.0.1 dafs dafs ")
    assert void.data["host"] == "10.77.0.1"


def test_a_connection_cut_during_the_read_back_voids_the_block(lab: Lab) -> None:
    with lab.slow(lab.server, "xstat_fs_test", "-onceonly") as gate, campaign(lab) as process:
        lab.meets(gate)
        lab.drop_connections(lab.server)
        gate.unlink()
        says(lab, process, "block 2, ")
    void = lab.stored().of("block-void")[0]
    assert void.data["failure"] == "transport"
    assert str(void.data["command"]).startswith("xstat_fs_test 10.77.0.1 -onceonly -collID")


def test_a_read_back_that_hangs_fails_its_arm(lab: Lab) -> None:
    """The connection is fine and the fileserver runs, but what it was asked is not answered."""
    hangs_once = (
        "#!/bin/sh\n"
        "mkdir /fstune/hung 2> /dev/null && exec sleep 600\n"
        'PATH=/usr/sbin:/usr/bin exec xstat_fs_test "$@"\n'
    )
    with lab.standing_in(lab.server, "xstat_fs_test", hangs_once), campaign(lab) as process:
        says(lab, process, "the fileserver does not answer: 10.77.0.1: xstat_fs_test")
        says(lab, process, "baseline: writing")
    stored = lab.stored()
    failed = [*stored.of("trial-failed"), *stored.of("block-void")][0]
    assert failed.data["failure"] == "configuration"
    assert failed.data["host"] == "10.77.0.1"
    assert str(failed.data["command"]).startswith("xstat_fs_test 10.77.0.1 -onceonly -collID")


def test_a_workload_on_one_client_outlives_its_connection(lab: Lab) -> None:
    lab.testbed(clients=1)
    lab.workload(linger_s=6)
    client = lab.clients[0]
    with campaign(lab) as process:
        wait_for(lambda: engine_runs(client), "the workload")
        lab.drop_connections(client)
        says(lab, process, "block 1 ")
    stored = lab.stored()
    assert stored.blocks[0].state is BlockState.COMPLETE
    assert len(stored.blocks[0].measurements) == 2
    assert client.run(["ls", "-A", "/var/tmp/fstune-0"]).stdout == b""


def test_a_workload_on_two_clients_is_ended_when_one_is_lost(lab: Lab) -> None:
    lab.workload(linger_s=30)
    with campaign(lab) as process:
        wait_for(lambda: engine_runs(lab.clients[1]), "the workload")
        lab.drop_connections(lab.clients[1])
        says(lab, process, "block 1 void")
        assert not any(engine_runs(client) for client in lab.clients)
        lab.workload()
    void = lab.stored().of("block-void")[0]
    assert void.data["failure"] == "transport"
    assert "workloads.pyz run" in str(void.data["command"])


def test_an_sshd_that_is_back_after_ten_seconds_costs_a_block(lab: Lab) -> None:
    lab.testbed(after="60s")
    with campaign(lab) as process:
        says(lab, process, "block 1, ")
        ssh.stop(lab.server)
        void = says_void(lab, process)
        time.sleep(10.0)
        lab.start_sshd(lab.server)
        says(lab, process, f"block {void + 1}, ")
    stored = lab.stored()
    assert stored.of("block-void")[0].data["failure"] == "transport"
    assert len(stored.measured) >= 2


def test_a_host_key_that_changes_ends_the_campaign(lab: Lab) -> None:
    lab.testbed(after=SOON)
    client = lab.clients[1]
    known = (lab.directory / "known_hosts").read_text()
    with campaign(lab) as process:
        says(lab, process, "block 1, ")
        ssh.stop(client)
        ssh.make_host_key(client)
        public = lab.start_sshd(client)
        stored = ended(lab, process)
    assert the(stored.of("campaign-failed")).data["failure"] == "access"
    assert "its host key is ssh-ed25519 SHA256:" in stored.campaign.reason
    assert len(stored.of("restore-failed")) == 1
    assert len(stored.measured) >= 1
    kept = [line for line in known.splitlines() if not line.startswith("10.77.0.12 ")]
    (lab.directory / "known_hosts").write_text("\n".join([*kept, f"10.77.0.12 {public}", ""]))
    lab.put_back()  # the host itself, after a while


def test_a_wrong_key_ends_the_campaign_before_anything_is_changed(lab: Lab) -> None:
    if not (lab.directory / "wrong").exists():
        make_key(lab.directory / "wrong")
    lab.testbed(key="wrong")
    result = lab.fstune("run", str(lab.directory / "campaign.yaml"))
    assert result.returncode == 6
    assert "operator@10.77.0.1: it accepts no key (tried the key" in result.stderr
    assert lab.left() == []
    assert the(lab.stored().of("campaign-failed")).data["failure"] == "access"


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
    void = lab.stored().of("block-void")[0]
    assert void.data["failure"] == "workload"
    assert void.data["exit_status"] == 3


def test_a_fileserver_that_is_killed_during_the_workload_voids_the_block(lab: Lab) -> None:
    lab.workload(linger_s=3)
    with campaign(lab) as process:
        wait_for(lambda: engine_runs(lab.clients[0]), "the workload")
        server = process_in(lab.server, "dafileserver")
        assert server is not None
        server.kill()
        says(lab, process, "block 1 void")
        says(lab, process, "block 2, ")
    void = lab.stored().of("block-void")[0]
    assert void.data["failure"] == "workload"


def test_a_fileserver_that_hangs_at_its_start_fails_its_trial(lab: Lab) -> None:
    fileserver = lab.found["server"][0]
    with lab.hanging(lab.server, fileserver, "-p 20"), campaign(lab) as process:
        says(lab, process, "trial 1 failed: the fileserver does not start within 30 s")
        says(lab, process, "baseline: writing")
    failed = the(lab.stored().of("trial-failed"))
    assert failed.data["failure"] == "configuration"
    assert failed.data["host"] == "10.77.0.1"
    assert str(failed.data["command"]).endswith(" -p 20")


def test_a_client_mount_that_hangs_fails_its_trial(lab: Lab) -> None:
    lab.campaign([{"cache_manager.daemons": 4}])
    # The program itself is named by its whole path; what starts it, within a time, is not.
    hangs = (
        "#!/bin/sh\n"
        'case " $* " in *" -daemons "*) exec /usr/bin/timeout --foreground 20 sleep 600 ;; esac\n'
        'exec /usr/bin/timeout "$@"\n'
    )
    with lab.standing_in(lab.clients[1], "timeout", hangs), campaign(lab) as process:
        says(lab, process, "trial 1 failed: the cache manager does not start")
        says(lab, process, "baseline: writing")
    failed = the(lab.stored().of("trial-failed"))
    assert failed.data["failure"] == "configuration"
    assert failed.data["exit_status"] == 4
    assert failed.data["host"] == "10.77.0.12"


def test_hosts_whose_controller_was_killed_put_themselves_back(lab: Lab) -> None:
    lab.workload(linger_s=3)
    with lab.running("run", str(lab.directory / "campaign.yaml")) as process:
        says(lab, process, "block 1, ")
        wait_for(lambda: engine_runs(lab.clients[0]), "the next workload")
        process.kill()
    assert lab.left(files=False) != []
    lab.hear_nothing()
    lab.put_back(files=False)
    before = lab.stored()
    assert before.campaign.state is CampaignState.RUNNING
    assert before.measured != {}
    with campaign(lab, "resume") as process:
        says(lab, process, "block 2, ")
    after = lab.stored()
    assert before.measured.items() <= after.measured.items()
    assert after.blocks[0].state is BlockState.VOID


def test_without_its_hosts_a_campaign_ends_and_goes_on_later(lab: Lab) -> None:
    lab.testbed(after=SOON)
    with campaign(lab) as process:
        says(lab, process, "block 1, ")
        with lab.cable_cut():
            stored = ended(lab, process)
            lab.put_back(files=False)  # the hosts themselves
    assert the(stored.of("campaign-failed")).data["failure"] == "transport"
    assert stored.measured != {}
    assert "fstune resume" in lab.said
    with campaign(lab, "resume") as process:
        says(lab, process, "block 3, ")
    assert stored.measured.items() <= lab.stored().measured.items()


def goes_on(lab: Lab, before: Stored) -> None:
    """A campaign that has ended is taken up again, with all that was measured."""
    with campaign(lab, "resume") as process:
        says(lab, process, "baseline: writing")
    assert before.measured.items() <= lab.stored().measured.items()


@pytest.mark.parametrize("which", ["server", "client"])
def test_a_host_that_starts_anew_ends_the_campaign_which_goes_on_later(
    lab: Lab, which: str
) -> None:
    """Nobody knows what else has changed with it."""
    lab.workload(linger_s=3)
    with campaign(lab) as process:
        says(lab, process, "block 1, ")
        wait_for(lambda: engine_runs(lab.clients[0]), "the next workload")
        lab.restart(lab.server if which == "server" else lab.clients[1])
        stored = ended(lab, process)
    assert "was restarted while it was in use" in stored.campaign.reason
    assert the(stored.of("campaign-failed")).data["failure"] == "testbed"
    assert len(stored.of("restored")) == 2
    lab.put_back(files=False)
    goes_on(lab, stored)


def test_putting_back_by_hand_ends_a_campaign_that_runs(lab: Lab) -> None:
    lab.workload(linger_s=3)
    with campaign(lab) as process:
        says(lab, process, "block 1, ")
        result = lab.fstune("testbed", "restore", str(lab.directory / "testbed.yaml"))
        assert result.returncode == 0, result.stdout + result.stderr
        stored = ended(lab, process)
        # A watch looks around every second, and then ends.
        wait_for(lambda: lab.left(files=False) == [], "the end of the watches")
    assert "has put itself back" in stored.campaign.reason
    again = lab.fstune("testbed", "restore", str(lab.directory / "testbed.yaml"))
    assert again.stdout.count("nothing to put back") == 3
    goes_on(lab, stored)


def test_a_controller_that_was_asleep_changes_nothing_when_it_wakes_up(lab: Lab) -> None:
    lab.workload(linger_s=3)
    with campaign(lab) as process:
        says(lab, process, "block 1, ")
        wait_for(lambda: engine_runs(lab.clients[0]), "the next workload")
        process.send_signal(signal.SIGSTOP)
        lab.hear_nothing()
        lab.put_back(files=False, runs=False)  # the hosts themselves, under a run
        process.send_signal(signal.SIGCONT)
        stored = ended(lab, process)
        # A watch looks around every second, and then ends.
        wait_for(lambda: lab.left(files=False) == [], "the end of the watches")
    assert "has put itself back" in lab.said
    goes_on(lab, stored)
