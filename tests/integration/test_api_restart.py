"""Clients of a real service: the command line at a server, and what they see when it is killed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.integration.conftest import command, wait_for
from tests.integration.test_api_curl import CAMPAIGN
from tests.integration.test_api_pages import Service, free_port
from tuner.cli.app import app as command_line
from tuner.errors import ConflictError, ServerError, SpecError, TunerError
from tuner.states import CampaignState
from tuner.store import Store

pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="this machine has no curl")

#: Much noise, so that nothing is settled early.
LONG = CAMPAIGN | {
    "testbed": {"simulated": {"noise": 0.05}},
    "pilot": {"blocks": 4, "override": True},
    "search": {"sampler": "random"},
    "budget": {"wall_time": "100m"},
}


class Remote:
    """A service, and clients that have a token for it and know nothing of its directory."""

    def __init__(self, service: Service, away: Path) -> None:
        self.service = service
        self.away = away
        self.token = service.fstune("token", "create", "one", "--scope", "operate").strip()
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

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            command(*arguments),
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def fstune(self, *arguments: str) -> str:
        """Run a command in this process, to its end; raises what it would tell."""
        done = CliRunner().invoke(command_line, arguments, env=self.environment)
        if isinstance(done.exception, TunerError):
            raise done.exception
        assert done.exit_code == 0, (done.output, done.exception)
        return done.output

    def curl(self, path: str, *options: str) -> subprocess.Popen[str]:
        bearer = f"Authorization: Bearer {self.token}"
        return subprocess.Popen(
            ["curl", "-sSN", "-H", bearer, *options, self.service.url + path],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )


@pytest.fixture
def remote(tmp_path: Path) -> Iterator[Remote]:
    """Return clients of a service that has begun nothing."""
    there, away = tmp_path / "there", tmp_path / "away"
    there.mkdir()
    away.mkdir()
    service = Service(there, free_port(), ("--auth", "--allow", "simulated"))
    service.start()
    yield Remote(service, away)
    service.stop(signal.SIGKILL)
    with Store.open(there) as store:
        for lease in store.leases():
            os.kill(lease.holder.pid, signal.SIGKILL)


def numbers(stream: str) -> list[int]:
    """The identifiers of the events of a stream that have arrived whole."""
    told = stream.rpartition("\n\n")[0]
    return [int(line[4:]) for line in told.splitlines() if line.startswith("id: ")]


def test_clients_miss_nothing_when_the_service_is_killed(remote: Remote) -> None:
    file = remote.away / "campaign.yaml"
    file.write_text(json.dumps(LONG))
    watching = remote.start("run", str(file), "--log", "json")
    assert watching.stderr is not None
    said = [watching.stderr.readline()]
    assert "runs at" in said[0]
    (campaign,) = [word for word in said[0].split() if word[:2] == "20"]
    path = f"/v1/campaigns/{campaign}/events/stream"
    curl = remote.curl(path)
    with Store.open(remote.service.directory) as store:
        wait_for(lambda: len(store.blocks(campaign)) > 3, "blocks")
        remote.service.stop(signal.SIGKILL)
        before = numbers(curl.communicate(timeout=20)[0])
        assert store.campaign(campaign).state is CampaignState.RUNNING
        away = len(store.events(campaign))
        wait_for(lambda: len(store.events(campaign)) > away, "events while the service is away")
        remote.service.start()
        again = remote.curl(path, "-H", f"Last-Event-ID: {before[-1]}")
        rest, complaints = watching.communicate(timeout=100)
        after = again.communicate(timeout=20)[0]
        events = [event.number for event in store.events(campaign)]
        assert store.campaign(campaign).state is CampaignState.FINISHED
    assert watching.returncode == 0, complaints
    assert events == list(range(1, len(events) + 1))
    # Whoever watches by curl comes again with the last number; the command does by itself.
    assert before + numbers(after) == events
    assert after.rstrip().endswith("data: {}")
    lines = complaints.splitlines()
    assert [json.loads(line)["number"] for line in lines if line.startswith("{")] == events
    assert sum("trying again" in line for line in lines) >= 1
    assert sum("connected again" in line for line in lines) >= 1
    assert "Restored" in rest


def test_a_campaign_is_steered_from_afar(remote: Remote) -> None:
    file = remote.away / "campaign.yaml"
    endless = {"sampler": "random", "max_trials": 5000, "trials_per_race": 2, "blocks_per_race": 3}
    space = {"name": "openafs-cache-manager-fuse-1.8", "only": ["daemons", "stat", "volumes"]}
    large = {"spaces": {"cache_manager": space}, "budget": {"wall_time": "900d"}}
    file.write_text(json.dumps(LONG | large | {"search": endless}))
    with remote.start("run", str(file)) as watching:
        assert watching.stdout is not None
        assert any("block 1 complete" in line for line in watching.stdout)
        assert "simulated" in remote.fstune("status")
        assert "will pause at the next safe point" in remote.fstune("pause", "last")
        _, complaint = watching.communicate(timeout=100)
    assert watching.returncode == 130
    assert "paused; go on with: fstune resume" in complaint
    with pytest.raises(ConflictError, match="is paused; it does not run"):
        remote.fstune("pause", "last")
    with remote.start("resume") as watching:
        assert watching.stdout is not None
        assert any("complete" in line for line in watching.stdout)
        watching.send_signal(signal.SIGINT)
        _, complaint = watching.communicate(timeout=100)
    assert watching.returncode == 130
    assert "goes on; to watch it again: fstune watch" in complaint
    assert "will cancel" in remote.fstune("cancel", "last")
    with remote.start("watch") as watching:
        said, complaint = watching.communicate(timeout=100)
    assert watching.returncode == 130
    assert complaint == "fstune: cancelled\n"
    assert "asked to pause from one, over HTTP" in said
    assert not (remote.away / "nothing").exists()


def test_what_is_read_from_afar_is_what_is_read_there(remote: Remote) -> None:
    file = remote.away / "campaign.yaml"
    file.write_text(json.dumps(CAMPAIGN))
    assert "Recommended: " in remote.fstune("run", str(file))
    there = ("--state-dir", str(remote.service.directory))
    for words in (
        ("list",),
        ("show",),
        ("watch",),
        ("recommend",),
        ("recommend", "--format", "json"),
        ("recommend", "--format", "flags"),
    ):
        assert remote.fstune(*words) == remote.fstune(*words, *there), words
    branched = remote.fstune("branch", "last", str(file), "--server", remote.service.url)
    assert "Recommended: " in branched


def test_what_the_server_refuses_is_told_in_its_words(remote: Remote) -> None:
    file = remote.away / "campaign.yaml"
    file.write_text(json.dumps(CAMPAIGN | {"workload": "./mine.yaml"}))
    with pytest.raises(SpecError, match=r"^workload: there is no such packaged workload; see /v1"):
        remote.fstune("run", str(file))
    file.write_text(json.dumps(CAMPAIGN | {"wrkload": "x"}))
    with pytest.raises(SpecError, match="wrkload: unknown key; did you mean 'workload'"):
        remote.fstune("run", str(file))
    with pytest.raises(SpecError, match="does not go with"):
        remote.fstune("list", "--server", remote.service.url, "--state-dir", str(remote.away))
    remote.environment["FSTUNE_TOKEN"] = "wrong"
    with pytest.raises(ServerError, match="set FSTUNE_TOKEN"):
        remote.fstune("list")
