"""Campaigns on a real kernel client: a complete comparison, and interruptions by failures."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.vm import Guest, seed
from tests.acceptance.files import FSTUNE, small_workload
from tests.vm.client_host import client_host, write_changed_testbed
from tests.waiting import wait_for
from tuner.model import Block, Campaign, Event
from tuner.states import BlockState, CampaignState
from tuner.store import Store

pytestmark = [pytest.mark.vm, pytest.mark.cell, pytest.mark.timeout(3600)]

#: Example campaign: the cost of encryption, on a testbed like this one.
EXAMPLE = Path(__file__).parents[2] / "examples" / "encryption.yaml"
#: A guest without contact restores itself after this time; hosts are waited for half as long. On a
#: busy machine, a guest takes more than two minutes to start again.
AFTER_S = 480
#: Measuring time of a campaign; a comparison measures at least three blocks.
_BUDGET_S = 360.0
#: Time limit for expected output and for the end of a run.
_PATIENCE_S = 900.0


@dataclass(frozen=True)
class Conducted:
    """A campaign on the guest, in its own directory."""

    guest: Guest
    directory: Path
    state: Path

    @property
    def log(self) -> str:
        """Output of the last run."""
        path = self.directory / "log"
        return path.read_text() if path.exists() else ""

    @contextmanager
    def running(self, *words: str) -> Iterator[subprocess.Popen[bytes]]:
        """Run fstune in the background; interrupt it like Ctrl-C if it is still running on exit."""
        command = [str(FSTUNE), *words, "--state-dir", str(self.directory / "state")]
        with (self.directory / "log").open("wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log)
            try:
                yield process
            finally:
                if process.poll() is None:
                    process.send_signal(signal.SIGINT)
                    process.wait(240.0)

    def says(self, process: subprocess.Popen[bytes], words: str) -> None:
        """Wait until the output contains ``words``; fails if the process exits without them."""

        def is_due() -> bool:
            return words in self.log or process.poll() is not None

        wait_for(is_due, words, 1.0, most_s=_PATIENCE_S)
        assert words in self.log, self.log

    def records(self) -> tuple[Campaign, list[Block], list[Event]]:
        with Store.open(self.directory / "state") as store:
            campaign = store.campaign("last")
            return campaign, store.blocks(campaign.id), store.events(campaign.id)


def writes() -> dict[str, object]:
    """The stages of the small workload that need no cold caches.

    Stages with cold caches restart the client once more; test_encryption.py covers that.
    """
    document: dict[str, Any] = small_workload()
    document["stages"] = [stage for stage in document["stages"] if stage["cache"] != "cold"]
    names = {p.get("component") for stage in document["stages"] for p in stage["phases"]} - {None}
    document["weights"] = dict.fromkeys(sorted(names), 1.0 / len(names))
    return document


@pytest.fixture
def conducted(guest: Guest, state: Path, tmp_path: Path) -> Conducted:
    testbed = write_changed_testbed(guest, "conducted", restore={"after": f"{AFTER_S}s"})
    # The nodes of the cell are looked up in the state directory.
    own = tmp_path / "state"
    own.mkdir()
    (own / "cells").symlink_to(state / "cells")
    work = tmp_path / "workload.yaml"
    work.write_text(yaml.safe_dump(writes()))
    example = yaml.safe_load(EXAMPLE.read_text())
    changes = {
        "references": [reference | {"every": 2} for reference in example["references"]],
        "testbed": {"hosts": str(testbed)},
        "workload": str(work),
        "certification": {"blocks": 3},
        "budget": {"wall_time": f"{_BUDGET_S:.0f}s"},
    }
    assert {one["path"] for one in example["references"]} == {
        seed.NFS_DIRECTORY,
        seed.LOCAL_DIRECTORY,
    }
    (tmp_path / "campaign.yaml").write_text(yaml.safe_dump(example | changes))
    return Conducted(guest, tmp_path, state)


def assert_as_found(conducted: Conducted, before: tuple[str, dict[str, object]]) -> None:
    with client_host(conducted.guest, conducted.state) as client:
        assert (client.file(), client.effective()) == before
        assert client.journals() == []


@pytest.fixture
def before(guest: Guest, state: Path) -> tuple[str, dict[str, object]]:
    with client_host(guest, state) as client:
        return client.file(), client.effective()


Before = tuple[str, dict[str, object]]


def test_a_comparison_completes_despite_a_network_outage_of_a_minute(
    conducted: Conducted, before: Before
) -> None:
    server = conducted.guest.cell.server
    tap = server.check(["ip", "-oneline", "link", "show", "type", "tun"]).split(":")[1].strip()
    with conducted.running("run", str(conducted.directory / "campaign.yaml")) as process:
        conducted.says(process, "block 1, ")
        server.check(["ip", "link", "set", tap, "down"])
        try:
            time.sleep(60.0)
            assert process.poll() is None, conducted.log
        finally:
            server.check(["ip", "link", "set", tap, "up"])
        assert process.wait(_PATIENCE_S) == 0, conducted.log
    campaign, blocks, _ = conducted.records()
    assert campaign.state is CampaignState.FINISHED
    complete = [block for block in blocks if block.state is BlockState.COMPLETE]
    assert complete, conducted.log
    assert len(blocks) - len(complete) <= 1, conducted.log
    with_references = [block for block in complete if block.references]
    assert with_references
    for block in with_references:
        assert {run.name for run in block.references} == {"nfs", "local disk"}
    for block in complete:
        effective = {m.trial: m.effective.as_dict() for m in block.measurements}
        assert effective[0]["client_runtime.crypt"] == "on"
        assert effective[1]["client_runtime.crypt"] == "off"
    assert_as_found(conducted, before)


def test_a_reboot_and_a_kill_in_the_middle_of_a_block_are_reported_as_such(
    conducted: Conducted, before: Before, bring_up: Callable[[], Guest]
) -> None:
    guest = conducted.guest
    file = f"{seed.LOCAL_DIRECTORY}/kept"
    guest.run(["sh", "-c", 'echo kept > "$1" && sync', "sh", file])
    with conducted.running("run", str(conducted.directory / "campaign.yaml")) as process:
        conducted.says(process, "block 1, ")
        guest.run(["systemctl", "reboot", "--force"], timeout_s=30.0)
        assert process.wait(_PATIENCE_S) == 6, conducted.log
    campaign, _, _ = conducted.records()
    assert campaign.state is CampaignState.FAILED
    assert "was restarted while it was in use" in campaign.reason
    assert guest.process.is_alive()
    assert guest.run(["cat", file]).stdout == b"kept\n"
    assert_as_found(conducted, before)

    with conducted.running("resume") as process:
        conducted.says(process, ": trial 1, baseline")
        os.kill(guest.process.pid, signal.SIGKILL)
        assert process.wait(_PATIENCE_S) == 6, conducted.log
    campaign, _, events = conducted.records()
    assert campaign.state is CampaignState.FAILED
    failures = [event.data["failure"] for event in events if event.kind == "campaign-failed"]
    assert failures[-1] == "transport"
    again = bring_up()
    assert again.process != guest.process
    assert again.run(["true"]).status == 0
