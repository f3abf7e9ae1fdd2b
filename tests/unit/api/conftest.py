"""A real store filled by a campaign on a simulated testbed, and services that use it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from typer.testing import CliRunner

from api.app import create_app
from tuner.cli.app import app as command_line
from tuner.settings import ServiceSettings
from tuner.tokens import Scope

CAMPAIGN = """
name: over http
testbed:
  simulated:
    effects: [{parameter: cache_manager.daemons, low: 1, change: -0.3}]
spaces:
  cache_manager: {name: openafs-cache-manager-fuse-1.8, only: [daemons]}
workload: mixed-use
pilot: {blocks: 3, override: true}
search: {arms: 3, blocks_per_trial: 8, max_trials: 8}
certification: {blocks: 12}
budget: {wall_time: 20m}
"""


def fstune(directory: Path, *arguments: str) -> str:
    """Run the command line on a state directory, which must succeed, and return its output."""
    done = CliRunner().invoke(command_line, [*arguments, "--state-dir", str(directory)])
    assert done.exit_code == 0, (done.output, done.exception)
    return done.output


@pytest.fixture(scope="session")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a state directory with one finished campaign. Tests must not change it."""
    directory = tmp_path_factory.mktemp("state")
    file = directory / "campaign.yaml"
    file.write_text(CAMPAIGN)
    fstune(directory, "run", str(file))
    return directory


@pytest.fixture(scope="session")
def client(measured: Path) -> Iterator[TestClient]:
    """Return a client of a service that needs no tokens."""
    settings = ServiceSettings(requests_per_s=1e6, burst=10**6)
    with TestClient(create_app(measured, settings), base_url="http://localhost") as client:
        # Compute the effects now: a page waits only briefly for them, and changes once they exist.
        assert client.get("/v1/campaigns/last/effects").status_code == 200
        yield client


@dataclass(frozen=True)
class Guarded:
    """A service that requires tokens, with one token of each scope."""

    client: TestClient
    directory: Path
    tokens: dict[Scope, str]

    def headers(self, scope: Scope) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.tokens[scope]}"}


@pytest.fixture(scope="session")
def with_tokens(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[Scope, str]]:
    """Return a state directory with one token of each scope, for tests to copy, and the tokens."""
    directory = tmp_path_factory.mktemp("tokens")
    tokens = {
        scope: fstune(directory, "token", "create", f"for {scope}", "--scope", scope).split()[0]
        for scope in Scope
    }
    return directory, tokens


@pytest.fixture
def guarded(tmp_path: Path, with_tokens: tuple[Path, dict[Scope, str]]) -> Iterator[Guarded]:
    """Return a service that requires tokens, on its own state directory."""
    settings = ServiceSettings(
        auth=True, allow=frozenset({"simulated"}), requests_per_s=1e6, burst=10**6
    )
    state, tokens = with_tokens
    shutil.copytree(state, tmp_path, dirs_exist_ok=True)
    with TestClient(create_app(tmp_path, settings), base_url="http://service") as client:
        yield Guarded(client, tmp_path, tokens)
