"""Runs the examples for real hosts, unchanged except for names, addresses and length."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.cell import ssh
from deploy.cell.client import VOLUME_PATH
from deploy.cell.network import SERVER_ADDRESS, client_address
from deploy.cell.server import VOLUME
from tests.acceptance.conftest import Place
from tests.acceptance.lab import RESTORE, Lab
from tuner.states import BlockState, CampaignState

pytestmark = [pytest.mark.cell, pytest.mark.slow, pytest.mark.timeout(400)]

EXAMPLES = Path(__file__).parents[2] / "examples"


def example(name: str) -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load((EXAMPLES / name).read_text())
    return document


def test_the_comparison_on_a_private_cell(place: Place) -> None:
    document = example("private-cell-compare.yaml")
    document["testbed"]["cell"]["name"] = place.cell
    document |= {
        "workload": "./workload.yaml",
        "certification": {"blocks": 3},
        "budget": {"wall_time": "5m", "measurements": 12},
    }
    place.campaign_file.write_text(yaml.safe_dump(document))
    run = place.fstune("run", str(place.campaign_file))
    assert run.returncode == 0, run.stdout + run.stderr
    campaign, trials, blocks, _ = place.load()
    assert campaign.state is CampaignState.FINISHED
    assert len(trials) == 1 + len(document["compare"])
    complete = [block for block in blocks if block.state is BlockState.COMPLETE]
    assert {m.trial for block in complete for m in block.measurements} == {0, 1, 2, 3}


def test_the_fileserver_and_its_clients_by_ssh(lab: Lab) -> None:
    testbed = example("fileserver-testbed.yaml")
    addresses = [SERVER_ADDRESS, client_address(1), client_address(2)]
    for host, address in zip((testbed["server"], *testbed["clients"]), addresses, strict=True):
        # The example uses the user's default key and known hosts; here they are the test's.
        host["reach"]["ssh"] |= {
            "address": address,
            "user": ssh.OPERATOR,
            "key": "user",
            "known_hosts": "known_hosts",
        }
    testbed["path"] = VOLUME_PATH
    testbed["server"] |= {
        "address": SERVER_ADDRESS,
        "volumes": [VOLUME],
        "other_volumes": ["root.afs", "root.cell"],
    }
    testbed["other_clients"] = [client_address(3)]
    testbed["restore"] |= {"directory": RESTORE}
    del testbed["hours"]  # tests run by day
    campaign = example("fileserver.yaml") | {
        "workload": "./workload.yaml",
        "first": [{"fileserver.threads": 20}],
        "pilot": {"blocks": 0},
        "search": {"arms": 1, "blocks_per_trial": 3, "max_trials": 1},
        "certification": {"blocks": 3, "share": "20%"},
        "budget": {"wall_time": "5m", "measurements": 8},
    }
    (lab.directory / "fileserver-testbed.yaml").write_text(yaml.safe_dump(testbed))
    (lab.directory / "campaign.yaml").write_text(yaml.safe_dump(campaign))
    run = lab.fstune("run", str(lab.directory / "campaign.yaml"))
    assert run.returncode == 0, run.stdout + run.stderr
    records = lab.load()
    assert records.campaign.state is CampaignState.FINISHED
    # The number of blocks depends on the results of the first one.
    assert {(1, 0), (1, 1)} <= records.measured.keys()
    assert all(
        measurement.clients.keys() == set(addresses[1:])
        for block in records.blocks
        for measurement in block.measurements
    )
    assert {run.name for block in records.blocks for run in block.references} == {"local-disk"}
