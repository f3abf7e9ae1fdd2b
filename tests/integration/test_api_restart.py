"""Clients of a real service: the command line with a server, and clients when it is killed."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO

import pytest
from sqlalchemy import Connection, update
from typer.testing import CliRunner

from tests.ending import kill_runs
from tests.integration.conftest import command
from tests.integration.serving import Service, paced
from tests.integration.test_api_curl import CAMPAIGN
from tests.ports import free_port
from tests.recommending import recommending
from tests.unit.apply.conftest import CANDIDATE, ORIGINAL
from tests.unit.campaign.campaigns import faster, spec
from tests.waiting import wait_for
from tuner.cli.app import app as command_line
from tuner.errors import ConflictError, NotFoundError, ServerError, SpecError, TunerError
from tuner.model import Campaign
from tuner.states import CampaignState
from tuner.store import NewEvent, Store, tables

__all__ = ["paced"]
pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="this machine has no curl")

#: Much noise, so that nothing is decided early, and a budget longer than any test waits. Its runs
#: take time without using a processor.
LONG = CAMPAIGN | {
    "testbed": {"paced": {"noise": 0.05}},
    "spaces": {
        "cache_manager": {
            "name": "openafs-cache-manager-fuse-1.8",
            "only": ["daemons", "stat", "volumes"],
        }
    },
    "pilot": {"blocks": 4, "override": True},
    "search": {
        "sampler": "random",
        "max_trials": 5000,
        "arms": 2,
        "blocks_per_trial": 3,
    },
    "budget": {"wall_time": "900d"},
}


#: The time since the last heartbeat, which differs from call to call.
AGE = re.compile(r"[\d.]+ (s|min \d\d s) ago")


class Remote:
    """A service, and clients that have a token for it but no access to its directory."""

    def __init__(self, service: Service, token: str, away: Path) -> None:
        self.service = service
        self.away = away
        self.token = token
        file = away / "token"
        file.touch(0o600)
        file.write_text(self.token)
        self.environment = dict(
            os.environ,
            FSTUNE_STATE_DIR=str(away / "nothing"),
            FSTUNE_SERVER=service.url,
            FSTUNE_TOKEN_FILE=str(file),
            PYTHONPATH=os.pathsep.join(sys.path),
        )

    def start(self, *arguments: str, complaints: Path | None = None) -> subprocess.Popen[str]:
        """Start a command; ``complaints``: a file for its standard error instead of a pipe."""
        if complaints is not None:
            with complaints.open("w") as file:
                return self._start(arguments, file)
        return self._start(arguments, subprocess.PIPE)

    @contextmanager
    def running(self, *arguments: str) -> Iterator[subprocess.Popen[str]]:
        """Run a command, and kill it afterwards if it has not ended."""
        with self.start(*arguments) as process:
            try:
                yield process
            finally:
                process.kill()

    def _start(self, arguments: tuple[str, ...], errors: IO[str] | int) -> subprocess.Popen[str]:
        return subprocess.Popen(
            command(*arguments),
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )

    def fstune(self, *arguments: str) -> str:
        """Run a command in this process to completion; raises the error it would report."""
        done = CliRunner().invoke(command_line, arguments, env=self.environment)
        if isinstance(done.exception, TunerError):
            raise done.exception
        assert done.exit_code == 0, (done.output, done.exception)
        return done.output

    def curl(self, path: str, answer: Path, *options: str) -> subprocess.Popen[bytes]:
        bearer = f"Authorization: Bearer {self.token}"
        with answer.open("w") as file:
            return subprocess.Popen(
                ["curl", "-sSN", "-H", bearer, *options, self.service.url + path],
                stdout=file,
                stderr=subprocess.DEVNULL,
            )


@contextmanager
def serving(directory: Path, *kinds: str) -> Iterator[tuple[Service, str]]:
    """Run a service that accepts kinds of testbeds, and create a token for it."""
    options = [word for kind in kinds for word in ("--allow", kind)]
    service = Service(directory, free_port(), ("--auth", *options))
    service.start()
    try:
        yield service, service.fstune("token", "create", "one", "--scope", "operate").strip()
    finally:
        service.stop(signal.SIGKILL)
        with Store.open(directory) as store:
            kill_runs(store)


@pytest.fixture
def remote(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Remote]:
    """Yield clients of a service without campaigns, of the kind ``paced`` too if a test uses it."""
    kinds = ["simulated"]
    if "paced" in request.fixturenames:
        request.getfixturevalue("paced")
        kinds.append("paced")
    there, away = tmp_path / "there", tmp_path / "away"
    there.mkdir()
    away.mkdir()
    with serving(there, *kinds) as (service, token):
        yield Remote(service, token, away)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Service, str]]:
    """Yield one service, and a token for it, for tests in which only "last" matters."""
    with serving(tmp_path_factory.mktemp("there"), "simulated") as running:
        yield running


@pytest.fixture
def client(shared: tuple[Service, str], tmp_path: Path) -> Remote:
    """Return clients of the shared service, which may have campaigns of other tests."""
    return Remote(*shared, tmp_path)


def numbers(stream: str) -> list[int]:
    """The identifiers of the events in a stream that have arrived completely."""
    complete = stream.rpartition("\n\n")[0]
    return [int(line[4:]) for line in complete.splitlines() if line.startswith("id: ")]


@pytest.mark.usefixtures("paced")
def test_clients_miss_nothing_when_the_service_is_killed(remote: Remote) -> None:
    file, errors_file = remote.away / "campaign.yaml", remote.away / "said"
    before, after = remote.away / "before", remote.away / "after"
    file.write_text(json.dumps(LONG))
    watching = remote.start("run", str(file), "--log", "json", complaints=errors_file)
    wait_for(lambda: "\n" in errors_file.read_text(), "the campaign's name")
    first = errors_file.read_text().partition("\n")[0]
    assert "runs at" in first
    (campaign,) = [word for word in first.split() if word[:2] == "20"]
    path = f"/v1/campaigns/{campaign}/events/stream"
    curl = remote.curl(path, before)
    with Store.open(remote.service.directory) as store:
        wait_for(lambda: len(store.blocks(campaign)) > 3, "blocks")
        wait_for(lambda: numbers(before.read_text()) != [], "events")
        remote.service.stop(signal.SIGKILL)
        curl.wait(60)
        assert store.campaign(campaign).state is CampaignState.RUNNING
        away = newest(store, campaign)
        wait_for(lambda: newest(store, campaign) > away, "events while the service is away")
        wait_for(lambda: "trying again" in errors_file.read_text(), "word of the lost connection")
        remote.service.start()
        last = numbers(before.read_text())[-1]
        again = remote.curl(path, after, "-H", f"Last-Event-ID: {last}")
        wait_for(lambda: "connected again" in errors_file.read_text(), "the connection")
        remote.fstune("cancel", campaign)
        rest, _ = watching.communicate(timeout=100)
        again.wait(100)
        events = [event.number for event in store.events(campaign)]
        assert store.campaign(campaign).state is CampaignState.CANCELLED
    complaints = errors_file.read_text()
    assert watching.returncode == 130, complaints
    assert events == list(range(1, len(events) + 1))
    # A client using curl must reconnect with the last number; the command does so automatically.
    assert numbers(before.read_text()) + numbers(after.read_text()) == events
    assert after.read_text().rstrip().endswith("data: {}")
    lines = complaints.splitlines()
    assert [json.loads(line)["number"] for line in lines if line.startswith("{")] == events
    assert "Restored" in rest


def newest(store: Store, campaign: str) -> int:
    """The number of the newest event."""
    return store.events(campaign)[-1].number


@pytest.mark.usefixtures("paced")
def test_a_campaign_is_steered_remotely(remote: Remote) -> None:
    file = remote.away / "campaign.yaml"
    file.write_text(json.dumps(LONG))
    with remote.running("run", str(file)) as watching:
        assert watching.stdout is not None
        assert any("block 1 complete" in line for line in watching.stdout)
        there = ("--state-dir", str(remote.service.directory))
        remote_words, local_words = (
            AGE.sub("", remote.fstune("status", *at)).split() for at in ((), there)
        )
        assert remote_words == local_words
        with Store.open(remote.service.directory) as store:
            (lease,) = store.leases()
        assert str(lease.holder.pid) in remote_words
        assert remote_words[-1] == "runs"
        # It may reach its safe point while the command checks.
        paused = remote.fstune("pause", "last")
        assert "will pause at the next safe point" in paused or "is paused" in paused
        _, complaint = watching.communicate(timeout=100)
    assert watching.returncode == 130
    assert "paused; continue with: fstune resume" in complaint
    with pytest.raises(ConflictError, match="is paused; it is not running"):
        remote.fstune("pause", "last")
    with remote.running("resume") as watching:
        assert watching.stdout is not None
        assert any("complete" in line for line in watching.stdout)
        watching.send_signal(signal.SIGINT)
        _, complaint = watching.communicate(timeout=100)
    assert watching.returncode == 130
    assert "continues; to watch it again: fstune watch" in complaint
    cancelled = remote.fstune("cancel", lease.campaign)
    assert "will cancel" in cancelled or "is cancelled" in cancelled
    with remote.running("watch") as watching:
        output, complaint = watching.communicate(timeout=100)
    assert watching.returncode == 130
    assert complaint == "fstune: cancelled\n"
    assert "pause requested from one, over HTTP" in output
    assert not (remote.away / "nothing").exists()


def test_remote_reads_equal_local_ones(client: Remote) -> None:
    file = client.away / "campaign.yaml"
    file.write_text(json.dumps(CAMPAIGN))
    assert "Recommended: " in client.fstune("run", str(file))
    there = ("--state-dir", str(client.service.directory))
    for words in (
        ("list",),
        ("show",),
        ("show", "--all"),
        ("show", "--json"),
        ("watch",),
        ("recommend",),
        ("recommend", "--format", "json"),
        ("recommend", "--format", "flags"),
        ("recommend", "--all"),
        ("recommend", "--all", "--format", "json"),
        ("recommend", "--all", "--workload", "another"),
    ):
        assert client.fstune(*words) == client.fstune(*words, *there), words
    assert "Noise of the score" in client.fstune("show", "--all")
    file = client.away / "campaign.jsonl.gz"
    output = client.fstune("export", "last", str(file))
    assert output.endswith(f" {file.stat().st_size} bytes written to {file}\n")
    with pytest.raises(ConflictError, match="exists; name a new file"):
        client.fstune("export", "last", str(file))
    elsewhere = ("--state-dir", str(client.away / "elsewhere"))
    client.fstune("import", str(file), *elsewhere)
    assert client.fstune("recommend", *elsewhere) == client.fstune("recommend", *there)
    file = client.away / "campaign.yaml"
    branched = client.fstune("branch", "last", str(file), "--server", client.service.url)
    assert re.search(r"the search is guided by \d+ trials of last\n", branched)
    assert "Recommended: " in branched


def test_explanation_and_expiry_are_read_remotely(remote: Remote) -> None:
    there = ("--state-dir", str(remote.service.directory))
    file = remote.away / "campaign.yaml"
    # A small effect in some noise takes enough blocks for an explanation.
    effect = {"parameter": "cache_manager.daemons", "change": -0.06}
    testbed = {"simulated": {"noise": 0.03, "effects": [effect]}}
    changes = {"testbed": testbed, "seed": 5, "budget": {"wall_time": "40m"}}
    file.write_text(json.dumps({**CAMPAIGN, **changes}))
    remote.fstune("run", str(file))
    with Store.open(remote.service.directory) as store:
        campaign = store.campaign("last")
        waiting_for_threads(store, campaign)
        at = datetime.now(UTC) + timedelta(hours=1)
        later = store.create_campaign("later", campaign.spec, 1, at).id
        aspect = store.measured_with(campaign.id)["testbed"]
        store.set_measured_with(later, {"testbed": aspect})
        ready = NewEvent(at, "testbed-ready", "ready", {"identity": "dafs 2"})
        store.add_event(later, ready)
    for words in (("show", campaign.id), ("recommend", campaign.id), ("list",)):
        output = remote.fstune(*words)
        assert output == remote.fstune(*words, *there), words
        assert "expired: " in output
        if words[0] != "list":
            sentence = "Calls that waited for a thread: 500 with the baseline, 10 with it"
            assert sentence in " ".join(output.split())
    assert '"expired": "expired: campaign' in remote.fstune("list", "--json")


def waiting_for_threads(store: Store, campaign: Campaign) -> None:
    """Store counters by which the baseline's calls often waited for threads, and others' hardly."""
    table = tables.measurement

    def write(connection: Connection) -> None:
        own = table.c.campaign == campaign.id
        for trial, count in ((table.c.trial == 0, 500.0), (table.c.trial != 0, 10.0)):
            counted = {"server.rx.calls_waited": count}
            connection.execute(update(table).where(own, trial).values(diagnostics=counted))

    store._database.write(write)


def test_a_comparison_that_is_run_remotely_ends_with_its_table(client: Remote) -> None:
    compared = {name: value for name, value in CAMPAIGN.items() if name != "pilot"} | {
        "compare": {"few": {"cache_manager": {"daemons": 3}}},
        "budget": {"wall_time": "10m"},
    }
    file = client.away / "campaign.yaml"
    file.write_text(json.dumps(compared))
    output = client.fstune("run", str(file))
    there = ("--state-dir", str(client.service.directory))
    table = client.fstune("show", *there).partition("Compared with the baseline")[2]
    assert "few" in table.partition("By component")[0]
    assert table.partition("By component")[0] in output
    for words in (("show",), ("show", "--json"), ("watch",)):
        assert client.fstune(*words) == client.fstune(*words, *there), words


def test_a_recommendation_is_applied_verified_and_rolled_back_remotely(
    remote: Remote,
) -> None:
    with Store.open(remote.service.directory) as store:
        campaign = recommending(store, spec(faster(-0.2), found=ORIGINAL), ORIGINAL, CANDIDATE).id
    with pytest.raises(ServerError, match="a token for admin is needed"):
        remote.fstune("apply", "--yes")
    token = remote.service.fstune("token", "create", "boss", "--scope", "admin").strip()
    remote.environment["FSTUNE_TOKEN"] = token
    planned = remote.fstune("apply", "--plan")
    assert "  ~ fileserver.threads: 64 -> 200\n" in planned
    with pytest.raises(ConflictError, match="give --yes"):
        remote.fstune("apply", "--step")
    applied = remote.fstune("apply", "--step", "--yes")
    assert "In 2 steps" in applied
    # The environment names the server.
    assert f"to undo it: fstune rollback {campaign}\n" in applied
    assert "Nothing to change: the recommended configuration is in effect." in remote.fstune(
        "apply"
    )
    (first, *_) = remote.fstune("applications").splitlines()
    assert first.endswith("  applied")
    with Store.open(remote.service.directory) as store:
        # A newer campaign with nothing in force: the commands below do not refer to it.
        recommending(store, spec(found=ORIGINAL), ORIGINAL, CANDIDATE)
    verified = remote.fstune("verify", "--blocks", "4")
    assert "The certificate holds." in verified
    back = remote.fstune("rollback", "--yes")
    assert f"  campaign {campaign}, testbed" in back
    assert " is rolled back: the previous settings are in effect" in back
    with pytest.raises(NotFoundError, match="nothing is in force"):
        remote.fstune("rollback")
    with pytest.raises(SpecError, match="name the campaign"):
        remote.fstune("rollback", "a20261122-094759-hm97", "--yes")
    with pytest.raises(SpecError, match="a server accepts no files"):
        remote.fstune("verify", "--testbed", "x.yaml")


def test_refusals_are_reported_in_the_servers_words(client: Remote) -> None:
    file = client.away / "campaign.yaml"
    file.write_text(json.dumps(CAMPAIGN | {"workload": "./mine.yaml"}))
    with pytest.raises(SpecError, match=r"^workload: there is no such packaged workload; see /v1"):
        client.fstune("run", str(file))
    file.write_text(json.dumps(CAMPAIGN | {"wrkload": "x"}))
    with pytest.raises(SpecError, match="wrkload: unknown key; did you mean 'workload'"):
        client.fstune("run", str(file))
    with pytest.raises(SpecError, match="cannot be used with"):
        client.fstune("list", "--server", client.service.url, "--state-dir", str(client.away))
    client.environment["FSTUNE_TOKEN"] = "wrong"
    with pytest.raises(ServerError, match="set FSTUNE_TOKEN"):
        client.fstune("list")
