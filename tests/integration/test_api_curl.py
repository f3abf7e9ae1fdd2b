"""The session from docs/api.md, verbatim, against a real service."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ending import kill_runs
from tests.integration.serving import Service
from tests.ports import free_port
from tuner.store import Store

CAMPAIGN = {
    "name": "from afar",
    "testbed": {"simulated": {"effects": [{"parameter": "cache_manager.daemons", "change": -0.3}]}},
    "spaces": {"cache_manager": {"name": "openafs-cache-manager-fuse-1.8", "only": ["daemons"]}},
    "workload": "mixed-use",
    "pilot": {"blocks": 0},
    "budget": {"wall_time": "10m"},
}


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    """Yield a service with tokens and without campaigns."""
    service = Service(tmp_path, free_port(), ("--auth", "--allow", "simulated"))
    service.start()
    yield service
    service.stop(signal.SIGKILL)
    with Store.open(tmp_path) as store:
        kill_runs(store)


def test_the_session_with_curl(service: Service, root: Path, tmp_path: Path) -> None:
    if shutil.which("curl") is None:
        pytest.skip("this machine has no curl")
    (tmp_path / "earlier.yaml").write_text(json.dumps(CAMPAIGN | {"name": "earlier"}))
    service.fstune("run", str(tmp_path / "earlier.yaml"))
    (tmp_path / "campaign.json").write_text(json.dumps(CAMPAIGN))
    blocks = re.findall(r"```sh\n(.*?)```", (root / "docs" / "api.md").read_text(), re.DOTALL)
    (session,) = [block for block in blocks if "token create" in block and "curl" in block]
    assert session.count("http://127.0.0.1:8710") == 1
    python = shlex.join([sys.executable, "-c", "from tuner.cli import main; main()"])
    calls = session.replace("http://127.0.0.1:8710", service.url).replace(
        "curl ", "echo; curl -sS "
    )
    script = f'fstune() {{ {python} "$@"; }}\nset -eu\n{calls}'
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=tmp_path,
        env=dict(os.environ, FSTUNE_STATE_DIR=str(tmp_path), PYTHONPATH=os.pathsep.join(sys.path)),
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    best, answer, body, rest = done.stdout.strip().split("\n", 3)
    assert json.loads(best)[0]["recommendation"]["campaign_name"] == "earlier"
    assert json.loads(answer)["campaign_name"] == "earlier"
    created = json.loads(body)
    assert created["name"] == "from afar"
    assert "event: over" in rest
    events = [json.loads(line) for line in re.findall(r"^data: (.*)$", rest, re.MULTILINE)]
    with Store.open(tmp_path) as store:
        messages = [event.message for event in store.events(created["id"])]
    # The stream is that of the new campaign, although an earlier one has measurements.
    assert [event["message"] for event in events if "number" in event] == messages
    refused = json.loads(rest.splitlines()[-1])
    assert refused["status"] == 409
    assert created["id"] in refused["detail"]
