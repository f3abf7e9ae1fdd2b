"""A campaign on a real cell, started, watched and read with curl only."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest

from tests.acceptance.conftest import Place
from tests.ports import free_port
from tests.waiting import wait_for
from tuner.model import Answer
from tuner.states import CampaignState

pytestmark = [pytest.mark.cell, pytest.mark.slow, pytest.mark.timeout(600)]


def campaign(cell: str) -> dict[str, object]:
    """Return a campaign with packaged spaces and a small scale of a packaged workload."""
    return {
        "name": "over http",
        "testbed": {"cell": {"name": cell}},
        "spaces": {
            "fileserver": {"name": "openafs-fileserver-1.8", "only": ["threads"]},
            "cache_manager": {"name": "openafs-cache-manager-fuse-1.8", "only": ["daemons"]},
        },
        "workload": {"name": "mixed-use", "scale": 0.05},
        "pilot": {"blocks": 0},
        "search": {"arms": 2, "blocks_per_trial": 3, "max_trials": 2},
        "budget": {"wall_time": "5m", "measurements": 12},
        "certification": {"blocks": 3, "share": "20%"},
    }


def test_a_campaign_by_curl_alone(place: Place) -> None:
    if shutil.which("curl") is None:
        pytest.skip("this machine has no curl")
    token = place.fstune("token", "create", "one", "--scope", "operate")
    url = f"http://127.0.0.1:{(port := free_port())}/v1/campaigns"

    bearer = f"Authorization: Bearer {token.stdout.strip()}"

    def curl(*arguments: str) -> str:
        done = subprocess.run(
            ["curl", "-sSN", "--fail-with-body", "-H", bearer, *arguments],
            capture_output=True,
            text=True,
            timeout=460,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    with place.start("serve", "--auth", "--allow", "cell", "--port", str(port)) as service:
        try:
            wait_for(lambda: answers(port), "the service", every_s=0.1, most_s=60.0)
            file = place.directory / "campaign.json"
            file.write_text(json.dumps(campaign(place.cell)))
            created = json.loads(curl("--json", f"@{file}", url))
            assert created["testbed"] == "cell"
            # If the campaign fails or hangs, the stream does not end; curl then times out, and its
            # output is shown.
            stream = curl("--max-time", "450", f"{url}/{created['id']}/events/stream")
            answer = json.loads(curl(f"{url}/{created['id']}/recommendation"))
            measured = json.loads(curl(f"{url}/{created['id']}/measurements?limit=1000"))["items"]
        finally:
            service.terminate()
            service.communicate(timeout=100)
    lines = stream.splitlines()
    assert "event: over" in lines[-4:]
    numbers = [int(line[4:]) for line in lines if line.startswith("id: ")]
    record, _, blocks, events = place.load()
    assert numbers == [event.number for event in events]
    assert record.state is CampaignState.FINISHED
    assert answer["answer"] in list(Answer)
    assert set(answer["baseline_flags"]) == {"cache_manager", "fileserver"}
    assert answer["client"]
    assert len(measured) == sum(len(block.measurements) for block in blocks) >= 4
    assert any(one["actions"] for one in measured)
    closed = [event.message for event in events if event.kind == "testbed-closed"]
    assert closed == [f"private cell {place.cell} taken down"]
    assert place.left_behind() == []


def answers(port: int) -> bool:
    command = ["curl", "-s", "-o", "/dev/null", f"http://127.0.0.1:{port}/healthz"]
    return subprocess.run(command, check=False, timeout=30).returncode == 0
