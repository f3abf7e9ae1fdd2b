"""The HTTP interface on a real store, filled by a real campaign on a simulated testbed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from typer.testing import CliRunner

from api.app import create_app
from tuner.cli.app import app as command_line

CAMPAIGN = """
name: over http
testbed:
  simulated:
    effects: [{parameter: cache_manager.daemons, low: 1, change: -0.3}]
spaces:
  cache_manager: {name: openafs-cache-manager-fuse-1.8, only: [daemons]}
workload: mixed-use
pilot: {blocks: 0}
budget: {wall_time: 20m}
"""


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    directory = tmp_path_factory.mktemp("state")
    file = directory / "campaign.yaml"
    file.write_text(CAMPAIGN)
    done = CliRunner().invoke(command_line, ["run", str(file), "--state-dir", str(directory)])
    assert done.exit_code == 0, done.output
    with TestClient(create_app(directory)) as client:
        yield client


def test_it_says_that_it_runs(client: TestClient) -> None:
    assert client.get("/healthz").json() == {"status": "ok"}


def test_campaigns_are_listed_with_their_answer(client: TestClient) -> None:
    (campaign,) = client.get("/v1/campaigns").json()
    assert campaign["name"] == "over http"
    assert campaign["state"] == "finished"
    assert campaign["answer"] == "recommended"
    assert client.get(f"/v1/campaigns/{campaign['id']}").json() == campaign


def test_the_recommendation_has_settings_options_and_evidence(client: TestClient) -> None:
    document = client.get("/v1/campaigns/last/recommendation").json()
    assert document["answer"] == "recommended"
    daemons = document["configuration"]["cache_manager.daemons"]
    assert document["flags"]["cache_manager"]["arguments"] == ["-daemons", str(daemons)]
    assert document["improvement"]["lower_percent"] > 0
    assert document["client"] == "simulated"


def test_the_drift_of_the_baseline_has_a_point_for_each_block(client: TestClient) -> None:
    points = client.get("/v1/campaigns/last/drift").json()
    assert [p["block"] for p in points] == list(range(1, len(points) + 1))
    assert {p["kind"] for p in points} == {"search", "certify"}
    assert 0.9 < min(p["ratio"] for p in points) < 1 < max(p["ratio"] for p in points) < 1.1


@pytest.mark.parametrize("path", ["/v1/campaigns/nosuch", "/v1/nothing"])
def test_errors_are_problem_details(client: TestClient, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"
    body = answer.json()
    assert body["status"] == 404
    assert body["title"] == "Not Found"
    assert body["detail"]


def test_an_empty_store_has_no_campaigns(tmp_path: Path) -> None:
    with TestClient(create_app(tmp_path)) as client:
        assert client.get("/v1/campaigns").json() == []
        assert client.get("/v1/campaigns/last").status_code == 404


def test_only_loopback_is_served(tmp_path: Path) -> None:
    done = CliRunner().invoke(
        command_line, ["serve", "--host", "0.0.0.0", "--state-dir", str(tmp_path)]
    )
    assert done.exit_code != 0
    assert "loopback" in str(done.exception)
