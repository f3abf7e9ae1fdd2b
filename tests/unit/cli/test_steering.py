"""Campaigns steered from other processes: paused, cancelled, inspected, resumed, branched."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

import workloads
from tests.unit.cli.conftest import COMMAND, Fstune
from tuner.states import BlockState, CampaignState
from tuner.store import Store

pytestmark = pytest.mark.slow

LIMIT_S = 60.0


@contextmanager
def running(environment: dict[str, str], *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Run the command in a separate process, which is killed at the end if it still runs."""
    with subprocess.Popen(
        [*COMMAND, *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_for(process: subprocess.Popen[str], words: str) -> None:
    assert process.stdout is not None
    deadline = time.monotonic() + LIMIT_S
    for line in process.stdout:
        if words in line:
            return
        assert time.monotonic() < deadline, f"{words!r} was not printed"
    raise AssertionError(f"it ended without printing {words!r}")


def test_a_campaign_is_paused_from_another_process_and_goes_on(
    fstune: Fstune, environment: dict[str, str], long_file: Path, state: Path
) -> None:
    with running(environment, "run", str(long_file)) as process:
        wait_for(process, "block 2 complete")
        pause = fstune("pause")
        assert pause.returncode == 0, pause.stderr
        assert "will pause at the next safe point" in pause.stdout
        output, _ = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 130, output
    with Store.open(state) as store:
        (campaign,) = store.campaigns()
        assert campaign.state is CampaignState.PAUSED
        assert campaign.reason.startswith("asked to pause from ")
        kinds = [event.kind for event in store.events(campaign.id)]
        assert kinds.count("pause-requested") == kinds.count("campaign-paused") == 1
        assert store.leases() == []
        measured = len(store.blocks(campaign.id))
    assert "is paused; it is not running" in fstune("pause").stderr
    with running(environment, "resume") as process:
        wait_for(process, f"block {measured + 2} complete")
        assert fstune("cancel", campaign.id).returncode == 0
        process.communicate(timeout=LIMIT_S)
    with Store.open(state) as store:
        assert store.campaign(campaign.id).state is CampaignState.CANCELLED
        assert len(store.blocks(campaign.id)) > measured
    refused = fstune("resume", campaign.id)
    assert refused.returncode == 4
    assert "is cancelled" in refused.stderr


def test_status_shows_who_runs_what_and_who_has_died(
    fstune: Fstune, environment: dict[str, str], long_file: Path, state: Path
) -> None:
    assert fstune("status").stdout == "No campaign is running.\n"
    with running(environment, "run", str(long_file)) as process:
        wait_for(process, "block 1 complete")
        page = fstune("status").stdout
        assert f"{process.pid} on " in page
        assert page.rstrip().endswith("runs")
        second = fstune("resume")
        assert second.returncode == 4
        assert "is being run" in second.stderr or "in use" in second.stderr
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert "died; resume it with 'fstune resume'" in fstune("status").stdout
    with Store.open(state) as store:
        (campaign,) = store.campaigns()
        assert campaign.time_use.wall_s > 0.0
    with running(environment, "resume") as process:
        wait_for(process, " complete")
        assert fstune("status").stdout.rstrip().endswith("runs")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=LIMIT_S)
    with Store.open(state) as store:
        states = {block.state for block in store.blocks(campaign.id)}
        assert BlockState.RUNNING not in states


def test_a_campaign_whose_workload_has_changed_is_not_resumed(
    fstune: Fstune, environment: dict[str, str], long_file: Path, tmp_path: Path
) -> None:
    workload = tmp_path / "workload.yaml"
    packaged = yaml.safe_load(workloads.load("mixed-use").text)
    workload.write_text(yaml.safe_dump(packaged))
    document = yaml.safe_load(long_file.read_text())
    document["workload"] = {"name": str(workload)}
    long_file.write_text(yaml.safe_dump(document))
    with running(environment, "run", str(long_file)) as process:
        wait_for(process, "block 1 complete")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=LIMIT_S)
    workload.write_text(yaml.safe_dump(packaged | {"wall_clock_limit_s": 4321}))
    refused = fstune("resume")
    assert refused.returncode == 4
    message = refused.stderr.strip().splitlines()[-1]
    assert "was measured: workload (wall_clock_limit_s: 4321" in message
    assert "fstune branch" in message


def test_a_branch_is_guided_by_earlier_results_and_measures_afresh(
    fstune: Fstune, campaign_file: Path, state: Path
) -> None:
    assert fstune("run", campaign_file).returncode == 0
    with Store.open(state) as store:
        old = store.campaigns()[0]
    branched = fstune("branch", old.id, campaign_file)
    assert branched.returncode == 0, branched.stderr
    assert f"3 trials of {old.id} guide the search" in branched.stderr
    with Store.open(state) as store:
        new = store.campaigns()[0]
        assert new.id != old.id
        assert [p.origin for p in store.priors(new.id)] == [f"{old.id}:{n}" for n in (1, 2, 3)]
        assert new.recommendation is not None
        assert store.blocks(new.id)[0].number == 1
