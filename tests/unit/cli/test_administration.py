"""Campaigns steered, watched and taken over from other processes."""

from __future__ import annotations

import json
import re
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml

from tests.unit.campaign.campaigns import faster, spec
from tests.unit.cli.conftest import COMMAND, Fstune, process_of
from tests.unit.store.test_leases import THERE, block_on
from tests.unit.work.stored_runs import kinds
from tuner.model import Block
from tuner.states import BlockState, CampaignState, TrialState
from tuner.store import NewEvent, Store, problems

pytestmark = pytest.mark.slow

Begin = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def begin(environment: dict[str, str]) -> Iterator[Begin]:
    """Return a function that runs a command in a separate process and waits for its first block."""
    with ExitStack() as processes:

        def start(*arguments: str | Path) -> subprocess.Popen[str]:
            process = processes.enter_context(process_of(environment, *arguments))
            assert process.stdout is not None
            while "complete" not in (line := process.stdout.readline()):
                assert line, "it has ended"
            return process

        yield start


def file_of(tmp_path: Path, name: str, testbed: str | None = None) -> Path:
    """Write a campaign that takes longer than any test waits, on the named simulated testbed."""
    search = {"arms": 2, "blocks_per_trial": 3, "max_trials": 5000, "sampler": "random"}
    document = spec(noise=0.05, search=search, budget={"wall_time": "900d"}).model_dump(
        mode="json", exclude_none=True
    )
    document["name"] = name
    if testbed is not None:
        document["testbed"]["simulated"]["name"] = testbed
    path = tmp_path / f"{name}.yaml"
    path.write_text(yaml.safe_dump(document))
    return path


def test_a_campaign_is_paused_resumed_and_cancelled_from_elsewhere(
    fstune: Fstune, fstune_process: Fstune, begin: Begin, state: Path, tmp_path: Path
) -> None:
    process = begin("run", file_of(tmp_path, "long"))
    pause = fstune_process("pause")
    assert (pause.returncode, pause.stderr) == (0, "")
    assert re.fullmatch(r"campaign \S+ will pause at the next safe point\n", pause.stdout)
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors.count("fstune: paused; continue with")) == (130, 1)
    with Store.open(state) as store:
        (campaign,) = store.campaigns()
        assert campaign.state is CampaignState.PAUSED
        assert campaign.reason.startswith("pause requested from ")
        events = kinds(store, campaign.id)
        assert events.count("pause-requested") == events.count("campaign-paused") == 1
        assert events[-1] == "campaign-paused"
        assert store.request(campaign.id) is None
        assert store.leases() == []
        measured = len(store.blocks(campaign.id))
    again = fstune("pause")
    assert again.returncode == 4
    assert "is paused; it is not running" in again.stderr

    process = begin("resume")
    assert "will cancel at the next safe point" in fstune("cancel", campaign.id).stdout
    output, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (130, "fstune: cancelled\n")
    assert "Restored" in output
    with Store.open(state) as store:
        campaign = store.campaign("last")
        assert campaign.state is CampaignState.CANCELLED
        events = kinds(store, campaign.id)
        assert events.index("pause-requested") < events.index("campaign-paused")
        assert events.index("cancel-requested") < events.index(
            "restored", events.index("cancel-requested")
        )
        assert events[-1] == "campaign-cancelled"
        numbers = [block.number for block in store.blocks(campaign.id)]
        assert numbers == list(range(1, len(numbers) + 1))
        assert len(numbers) > measured
        open_states = {TrialState.RUNNING, TrialState.QUEUED}
        assert not open_states & {trial.state for trial in store.trials(campaign.id)}
        assert problems(store) == []
    for command in ("resume", "cancel"):
        refused = fstune(command, campaign.id)
        assert refused.returncode == 4
        assert "is cancelled" in refused.stderr
        assert (f"fstune branch {campaign.id} FILE" in refused.stderr) is (command == "resume")


def test_a_campaign_that_does_not_run_is_cancelled_at_once(
    fstune: Fstune, state: Path, finished: str
) -> None:
    refused = fstune("cancel", finished)
    assert refused.returncode == 4
    assert "is finished; it is not running" in refused.stderr
    with Store.open(state) as store:
        text = spec(faster()).to_json()
        campaign = store.create_campaign("small", text, 1, datetime.now(UTC)).id
    assert fstune("cancel", campaign).stdout == f"campaign {campaign} is cancelled\n"


def test_watchers_are_notified_that_the_process_died(
    begin: Begin, environment: dict[str, str], tmp_path: Path
) -> None:
    process = begin("run", file_of(tmp_path, "long"))
    # Standard output is discarded: nobody would read a pipe, and the process would block.
    with subprocess.Popen(
        [*COMMAND, "watch"],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as watching:
        try:
            process.kill()
            process.communicate()
            assert watching.stderr is not None
            line = watching.stderr.readline()
            assert line.startswith(f"fstune: its process ({process.pid} on ")
            assert re.search(r"has died; it was last heard from .*; to resume it: f", line)
            # Watching continues: somebody may resume the campaign, as happens here.
            begin("resume")
            assert watching.stderr.readline() == "fstune: its process is active again\n"
        finally:
            watching.kill()


def test_what_a_killed_process_left_is_ended(
    fstune: Fstune, begin: Begin, state: Path, tmp_path: Path
) -> None:
    assert fstune("status").stdout == "No campaign is running.\n"
    process = begin("run", file_of(tmp_path, "long"))
    second = fstune("resume")
    assert second.returncode == 4
    message = " ".join(second.stderr.split())
    assert re.search(
        r"is being run by another process: .*; to follow it: fstune watch \S+$", message
    )
    process.kill()
    process.communicate()
    assert "died; resume it with 'fstune resume'" in fstune("status").stdout
    message = f"its process ({process.pid} on {socket.gethostname()}) has died"
    assert message in " ".join(fstune("show").stdout.split())
    assert message in fstune("recommend").stderr
    assert "  stalled  " in fstune("list").stdout
    copy = shutil.copytree(state, tmp_path / "copy")
    for wish, directory, end in (
        ("cancel", copy, CampaignState.CANCELLED),
        ("pause", state, CampaignState.PAUSED),
    ):
        with Store.open(directory) as store:
            identifier = store.campaign("last").id
        done = fstune(wish, identifier, "--state-dir", directory)
        assert done.returncode == 0, done.stderr
        # By now, a later campaign may have done it.
        todo = "any later campaign there does that, and so do 'fstune cell down'"
        if wish == "pause":
            todo = f"'fstune resume {identifier}' does that"
        assert f"it has not restored its testbed; {todo}" in done.stdout
        with Store.open(directory) as store:
            campaign = store.campaign("last")
            assert campaign.state is end
            assert campaign.time_use.wall_s > 0.0
            assert not any(b.state is BlockState.RUNNING for b in store.blocks(campaign.id))
            assert problems(store) == []
    begin("resume").send_signal(signal.SIGINT)


def test_a_testbed_is_used_by_one_campaign(
    fstune: Fstune, begin: Begin, state: Path, tmp_path: Path
) -> None:
    first = begin("run", file_of(tmp_path, "first", "hall 7"))
    second = begin("run", file_of(tmp_path, "second", "hall 8"))
    refused = fstune("run", file_of(tmp_path, "third", "hall 7"))
    assert refused.returncode == 4
    assert re.search(
        rf"testbed simulated hall 7 is in use by campaign \S+: process {first.pid} on",
        refused.stderr,
    )
    waiting = fstune("list").stdout.splitlines()[1].split()[0]
    assert f"when it is free: fstune resume {waiting}" in " ".join(refused.stderr.split())
    refused = fstune("resume", waiting, "--override-pilot")
    message = " ".join(refused.stderr.split())
    assert message.endswith(f"; when it is free: fstune resume {waiting} --override-pilot")
    assert fstune("resume", waiting, "--from-queue").stderr.endswith("; the worker tries again\n")
    file = file_of(tmp_path, "fourth", "hall 7")
    file.write_text(yaml.safe_dump(yaml.safe_load(file.read_text()) | {"pilot": {"blocks": 3}}))
    refused = fstune("pilot", file)
    assert refused.stderr.endswith("; when it is free, repeat this\n")
    # To repeat it creates another campaign, so this one is not kept.
    assert "fourth" not in fstune("list").stdout
    heading, *rows = fstune("status").stdout.splitlines()
    assert heading.split()[:3] == ["Campaign", "Name", "Testbed"]
    rows_by_name = [next(row for row in rows if name in row) for name in ("first", "second")]
    assert len(rows) == 2
    for row, process, testbed in zip(
        rows_by_name, (first, second), ("hall 7", "hall 8"), strict=True
    ):
        assert f"simulated {testbed}" in row
        assert f"{process.pid} on " in row
        assert re.search(r"\d s ago  +runs$", row)
    # Once its process has died, another campaign can have the testbed.
    first.kill()
    first.wait()
    begin("resume", campaign_of(state, "third"))
    with Store.open(state) as store:
        holders = {lease.testbed: lease.campaign for lease in store.leases()}
        dead, third = campaign_of(state, "first"), campaign_of(state, "third")
        assert holders["simulated hall 7"] == third
        assert not any(b.state is BlockState.RUNNING for b in store.blocks(dead))
        blocks = [block for each in (dead, third) for block in store.blocks(each)]
    assert {block.testbed for block in blocks} == {"simulated hall 7"}


def campaign_of(state: Path, name: str) -> str:
    with Store.open(state) as store:
        return next(campaign.id for campaign in store.campaigns() if campaign.name == name)


def test_a_process_of_another_machine_is_taken_over_when_it_is_silent(
    fstune: Fstune, begin: Begin, state: Path, tmp_path: Path
) -> None:
    """The row is as another machine would have left it; its clock is the database's."""
    process = begin("run", file_of(tmp_path, "long", "hall 7"))
    process.send_signal(signal.SIGINT)
    process.communicate()
    with Store.open(state) as store:
        campaign = store.campaign("last")
        event = NewEvent(datetime.now(UTC), "x", "x")
        place = "simulated hall 7"
        (lease,) = store.take_testbeds(campaign.id, [place], THERE, 3600.0, lambda _: False, event)
        store.move_campaign(campaign.id, CampaignState.RUNNING, "", event)
        number = len(store.blocks(campaign.id)) + 1
        block: Block = block_on(lease, number)
        store.begin_block(campaign.id, block, event, lease)
        fresh = fstune("resume")
        assert fresh.returncode == 4
        assert re.search(
            r"by another process: process 4711 on there, last seen \d+ s ago; "
            r"can be taken over after \d+ s of silence; "
            rf"to follow it: fstune watch {campaign.id}\n",
            fresh.stderr,
        )
        store.beat(lease)
        with store._database.writer.begin() as connection:
            silent = (datetime.now(UTC) - timedelta(hours=2)).replace(tzinfo=None).isoformat(" ")
            connection.exec_driver_sql("UPDATE lease SET beat = ?", (silent,))
        assert "silent for more than" in fstune("status").stdout
        begin("resume")
        assert store.blocks(campaign.id, after=number - 1)[0].state is BlockState.VOID


def test_a_run_that_was_taken_over_leaves_the_campaign_alone(
    begin: Begin, state: Path, tmp_path: Path
) -> None:
    """It restores its testbed and reports that; the campaign's state belongs to the other run."""
    process = begin("run", file_of(tmp_path, "long"))
    event = NewEvent(datetime.now(UTC), "x", "x")
    with Store.open(state) as store:
        campaign = store.campaign("last").id
        (own_lease,) = store.leases()
        store.take_testbeds(campaign, [own_lease.testbed], THERE, 3600.0, lambda _: True, event)
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 4
        assert errors.startswith("fstune: ")
        assert store.campaign(campaign).state is CampaignState.RUNNING
        (lease,) = store.leases()
        assert lease.holder == THERE


def test_a_new_campaign_begins_with_what_an_earlier_one_found(
    fstune: Fstune, state: Path, finished: str, campaign_file: Path, tmp_path: Path
) -> None:
    document = yaml.safe_load(campaign_file.read_text())
    document["statistics"] = {"delta": 0.03}
    changed = tmp_path / "changed.yaml"
    changed.write_text(yaml.safe_dump(document))
    result = fstune("branch", finished, changed)
    assert result.returncode == 0, result.stderr
    with Store.open(state) as store:
        new, old = store.campaigns()
        priors = store.priors(new.id)
        configurations = {f"{old.id}:{t.number}": t.configuration for t in store.trials(old.id)}
        assert old.id == finished
        assert [prior.origin for prior in priors] == [f"{old.id}:{n}" for n in (1, 2, 3, 0)]
        assert result.stderr == f"fstune: the search is guided by 3 trials of {old.id}\n"
        assert all(configurations[prior.origin] == prior.configuration for prior in priors)
        assert min(prior.difference for prior in priors) < -0.1
        # Trials from them are measured afresh; the old measurements count nowhere.
        assert store.blocks(new.id)[0].number == 1
        assert new.recommendation is not None
        assert new.recommendation.blocks < len(store.blocks(new.id))
    smaller = dict(document, spaces={"cache_manager": document["spaces"]["cache_manager"]})
    smaller["first"] = []
    smaller["testbed"] = {"simulated": {"noise": 0.004}}
    changed.write_text(yaml.safe_dump(smaller))
    other = fstune("branch", old.id, changed)
    assert other.returncode == 0, other.stderr
    with Store.open(state) as store:
        other_priors = store.priors(store.campaign("last").id)
    assert all(
        not name.startswith("fileserver.") for p in other_priors for name, _ in p.configuration
    )


def test_a_branch_of_a_campaign_without_results_says_why_nothing_guides_it(
    fstune: Fstune, state: Path, campaign_file: Path
) -> None:
    with Store.open(state) as store:
        old = store.create_campaign("old", "{}", 0, datetime.now(UTC)).id
    result = fstune("branch", old, campaign_file)
    assert result.returncode == 0, result.stderr
    assert f"guided by 0 trials of {old}: it measured none in a search, or" in result.stderr


def test_a_run_writes_a_log(fstune: Fstune, campaign_file: Path, state: Path) -> None:
    result = fstune("run", campaign_file, "--log", "json")
    assert result.returncode == 0
    lines = [json.loads(line) for line in result.stderr.splitlines()]
    with Store.open(state) as store:
        campaign = store.campaign("last")
        events = {(e.number, e.kind) for e in store.events(campaign.id)}
    assert {line["campaign"] for line in lines} == {campaign.id}
    assert {(line["number"], line["event"]) for line in lines} <= events
    of_arms = [line for line in lines if line["event"] == "measured"]
    assert len(of_arms) > 10
    assert all(isinstance(line["block"], int) and "trial" in line for line in of_arms)
    # The final page is still printed, and nothing is printed twice.
    assert "block 1 complete" not in result.stdout
    assert "Restored" in result.stdout


def test_a_campaign_is_moved_elsewhere_as_a_file(
    fstune: Fstune, finished: str, tmp_path: Path
) -> None:
    file = tmp_path / "campaign.jsonl.gz"
    exported = fstune("export", "last", file)
    assert re.fullmatch(rf"campaign {finished}: \d+ rows written to {file}\n", exported.stdout)
    elsewhere = ("--state-dir", tmp_path / "elsewhere")
    added = fstune("import", file, *elsewhere)
    assert added.returncode == 0, added.stderr
    assert f"campaign {finished} was imported into " in added.stdout
    assert fstune("show", *elsewhere).stdout == fstune("show").stdout
    assert fstune("recommend", *elsewhere).stdout == fstune("recommend").stdout
    again = fstune("import", file, *elsewhere)
    assert again.returncode == 4
    assert "is already in" in again.stderr
