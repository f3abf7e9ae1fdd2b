"""Listing, filtering and deleting campaigns, and JSON output."""

from __future__ import annotations

import json
import os
import signal
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tests.unit.campaign.campaigns import spec
from tuner.cli import run as commands
from tuner.cli.app import app
from tuner.errors import ConflictError, NotFoundError
from tuner.states import CampaignState
from tuner.store import NewEvent, Store

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    with Store.open(tmp_path) as store:
        for number, name in enumerate(("first night", "second night", "day")):
            at = NOW + timedelta(hours=number)
            campaign = store.create_campaign(name, spec().to_json(), 1, at).id
        event = NewEvent(NOW, "campaign-failed", "it broke")
        store.move_campaign(campaign, CampaignState.FAILED, "it broke", event)
    return tmp_path


def fstune(state: Path, *arguments: str, answer: str = "") -> Result:
    return CliRunner().invoke(app, [*arguments, "--state-dir", str(state)], input=answer)


def names(state: Path, *options: str) -> list[str]:
    return [one["name"] for one in json.loads(fstune(state, "list", "--json", *options).output)]


def test_campaigns_are_filtered(state: Path) -> None:
    assert names(state) == ["day", "second night", "first night"]
    assert names(state, "--limit", "1") == ["day"]
    assert names(state, "--name", "NIGHT") == ["second night", "first night"]
    assert names(state, "--state", "failed") == ["day"]
    assert names(state, "--state", "failed", "--state", "created", "-n", "2") == [
        "day",
        "second night",
    ]
    assert fstune(state, "list", "--name", "none").output == "No campaign matches.\n"


def test_a_campaign_is_shown_as_json(state: Path) -> None:
    document = json.loads(fstune(state, "show", "day", "--json").output)
    assert (document["name"], document["state"], document["reason"]) == (
        "day",
        "failed",
        "it broke",
    )
    assert (document["answer"], document["trials"]) == (None, [])
    assert document["created"] == "2026-03-01T14:00:00+00:00"
    assert json.loads(fstune(state, "status", "--json").output) == {
        "running": [],
        "waiting": [],
        "workers": [],
        "closed": [],
    }


@pytest.mark.slow
@pytest.mark.parametrize("group", ["space", "workload"])
def test_lists_of_packaged_spaces_and_workloads_as_json(group: str) -> None:
    document = json.loads(CliRunner().invoke(app, [group, "list", "--json"]).output)
    assert len(document) > 3
    assert all(one["name"] for one in document)


@pytest.mark.slow
def test_a_campaign_is_deleted_with_everything(state: Path) -> None:
    assert fstune(state, "delete", "day", answer="n\n").exit_code == 1
    nobody = fstune(state, "delete", "day")
    assert nobody.exit_code == 1
    assert "is kept; --yes deletes it without asking" in nobody.output
    assert "day" in names(state)
    assert fstune(state, "delete", "day", "--yes").exit_code == 0
    assert names(state) == ["second night", "first night"]
    assert isinstance(fstune(state, "delete", "day", "--yes").exception, NotFoundError)
    with Store.open(state) as store:
        running = store.campaign("first night").id
        event = NewEvent(NOW, "campaign-started", "campaign started")
        store.move_campaign(running, CampaignState.RUNNING, "", event)
    refused = fstune(state, "delete", running, "--yes").exception
    assert isinstance(refused, ConflictError)
    assert "end it first" in str(refused)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_commands_and_options_are_completed(shell: str) -> None:
    words = {"bash": {"COMP_WORDS": "fstune li", "COMP_CWORD": "1"}}.get(
        shell, {"_TYPER_COMPLETE_ARGS": "fstune li", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    )
    variables = {"_FSTUNE_COMPLETE": f"complete_{shell}", **words}
    assert "list" in CliRunner().invoke(app, [], env=variables, prog_name="fstune").output


@pytest.fixture
def notices(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    messages: list[str] = []
    monkeypatch.setattr(commands, "_acknowledge", messages.append)
    return messages


def test_ctrl_c_is_answered_at_once_and_quiet_shows_only_the_end(
    tmp_path: Path, campaign_file: Path, notices: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from tuner.report.progress import NoProgress

    def strike(self: NoProgress, what: str) -> None:
        if not notices:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(NoProgress, "doing", strike)
    done = fstune(tmp_path, "run", str(campaign_file), "--quiet")
    assert done.exit_code == 130
    assert len(notices) == 1
    assert notices[0].startswith("SIGINT: stopping: ")
    assert "block 1" not in done.output
    assert "the campaign is paused" in done.output


def test_arguments_are_named_as_in_the_reference() -> None:
    for command, words in (("run", "FILE"), ("show", "[CAMPAIGN]"), ("compare", "SAMPLE...")):
        usage = CliRunner().invoke(app, [command, "-h"]).output.splitlines()[1]
        assert usage.split()[-1] == words


@pytest.mark.slow
def test_a_campaign_is_watched_quietly(tmp_path: Path, campaign_file: Path) -> None:
    ran = fstune(tmp_path, "run", str(campaign_file), "-q")
    watched = fstune(tmp_path, "watch", "-q")
    assert watched.exit_code == ran.exit_code == 0
    assert "block 1" not in watched.output
    assert "Recommended" in watched.output
    everything = fstune(tmp_path, "show", "-v").output
    assert everything == fstune(tmp_path, "show", "--all").output
