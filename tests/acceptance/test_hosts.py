"""Campaigns on hosts over SSH whose connections fail: each time the hosts are restored."""

from __future__ import annotations

import platform
import time

import pytest

from deploy.cell import ssh
from tests.acceptance.campaigns import (
    SOON,
    THREADS,
    campaign,
    says,
    says_void,
    the,
    wait_for_end,
)
from tests.acceptance.faults import drop_connections, meets, slow
from tests.acceptance.lab import Lab, make_key
from tests.security.local_users import OPTIONS, decoy, of_root, trap
from tuner.states import CampaignState

pytestmark = [pytest.mark.cell, pytest.mark.slow, pytest.mark.timeout(400)]


def test_a_campaign_by_ssh_ends_with_its_answer_and_everything_restored(lab: Lab) -> None:
    checked = lab.fstune("testbed", "check", str(lab.directory / "testbed.yaml"), "--dry-run")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert (
        "No problem found: a campaign can be run here, if its clients may write to the path."
        in checked.stdout
    )
    assert "10.77.0.1: timeout 10 bos shutdown 10.77.0.1 dafs -wait -localauth" in checked.stdout
    planned = lab.fstune("campaign", "check", str(lab.directory / "campaign.yaml"))
    assert planned.returncode == 0, planned.stdout + planned.stderr
    assert "10.77.0.1: timeout 10 bos shutdown 10.77.0.1 dafs -wait -localauth" in planned.stdout
    for node in (lab.server, *lab.clients):
        assert node.run(["ls", "-A", "/var/lib/fstune-restore"]).stdout == b""
    assert lab.left() == []

    lab.campaign([THREADS], blocks=3)
    result = lab.fstune("run", str(lab.directory / "campaign.yaml"))
    assert result.returncode == 0, result.stdout + result.stderr
    records = lab.load()
    assert records.campaign.state is CampaignState.FINISHED
    assert records.campaign.recommendation is not None
    assert len(records.measured) >= 6
    for block in records.blocks:
        for measurement in block.measurements:
            assert measurement.effective == measurement.requested
            assert measurement.clients.keys() == {"10.77.0.11", "10.77.0.12"}
            assert all(c.elapsed_s > 0.0 for c in measurement.components.values())
    assert len(records.of("restored")) == 2
    # The facts under which the certificate is valid, for every host.
    facts = str(records.of("testbed-ready")[0].data["hosts"])
    for host, path in (("10.77.0.1", "/vicepa"), *((f"10.77.0.{n}", "") for n in (11, 12))):
        assert f"{host} kernel = {platform.release()}" in facts
        assert f"{host} vm.dirty_ratio = " in facts
        assert f"{host} {path}" in facts


def test_processes_of_a_local_user_on_a_client_change_nothing(lab: Lab) -> None:
    """A user's process named afsd.fuse is neither believed nor run nor taken for a restored one."""
    node, other = lab.clients
    lab.campaign([{"cache_manager.daemons": 5}])
    with trap(node) as (program, proof), decoy(node, (program, *OPTIONS, "-daemons", "9")):
        with campaign(lab) as process:
            says(lab, process, "block 2, ")
        # It is interrupted and has restored both clients.
        assert not proof.exists()
        assert of_root(node, "afsd.fuse") == of_root(other, "afsd.fuse")
    assert len(lab.load().measured) >= 2


def test_a_connection_cut_during_a_restart_voids_the_block(lab: Lab) -> None:
    with slow(lab.server, "bos", "create") as gate, campaign(lab) as process:
        meets(gate)
        drop_connections(lab.server)
        gate.unlink()
        says(lab, process, "block 2, ")
    void = lab.load().of("block-void")[0]
    assert void.data["failure"] == "transport"
    assert str(void.data["command"]).startswith("bos create 10.77.0.1 dafs dafs ")
    assert void.data["host"] == "10.77.0.1"


def test_a_connection_cut_during_the_read_back_voids_the_block(lab: Lab) -> None:
    with slow(lab.server, "xstat_fs_test", "-onceonly") as gate, campaign(lab) as process:
        meets(gate)
        drop_connections(lab.server)
        gate.unlink()
        says(lab, process, "block 2, ")
    void = lab.load().of("block-void")[0]
    assert void.data["failure"] == "transport"
    assert str(void.data["command"]).startswith("xstat_fs_test 10.77.0.1 -onceonly -collID")


def test_an_sshd_that_is_back_after_four_seconds_costs_a_block(lab: Lab) -> None:
    lab.testbed(after="60s")
    with campaign(lab) as process:
        says(lab, process, "block 1, ")
        ssh.stop(lab.server)
        void = says_void(lab, process)
        time.sleep(4.0)
        lab.start_sshd(lab.server)
        says(lab, process, f"block {void + 1}, ")
    records = lab.load()
    assert records.of("block-void")[0].data["failure"] == "transport"
    assert len(records.measured) >= 2


def test_a_host_key_that_changes_ends_the_campaign(lab: Lab) -> None:
    lab.testbed(after=SOON)
    client = lab.clients[1]
    known_hosts = (lab.directory / "known_hosts").read_text()
    with campaign(lab) as process:
        says(lab, process, "block 1, ")
        ssh.stop(client)
        ssh.make_host_key(client)
        public = lab.start_sshd(client)
        records = wait_for_end(lab, process)
    assert the(records.of("campaign-failed")).data["failure"] == "access"
    assert "its host key is ssh-ed25519 SHA256:" in records.campaign.reason
    assert len(records.of("restore-failed")) == 1
    assert len(records.measured) >= 1
    lines = [line for line in known_hosts.splitlines() if not line.startswith("10.77.0.12 ")]
    (lab.directory / "known_hosts").write_text("\n".join([*lines, f"10.77.0.12 {public}", ""]))
    lab.restore()  # the host restores itself after a while


def test_a_wrong_key_ends_the_campaign_before_anything_is_changed(lab: Lab) -> None:
    if not (lab.directory / "wrong").exists():
        make_key(lab.directory / "wrong")
    lab.testbed(key="wrong")
    result = lab.fstune("run", str(lab.directory / "campaign.yaml"))
    assert result.returncode == 6
    assert "operator@10.77.0.1: it accepts no key (tried the key" in result.stderr
    assert lab.left() == []
    assert the(lab.load().of("campaign-failed")).data["failure"] == "access"
