"""Fixtures that run the command line in separate processes, on simulated campaigns."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tests.unit.campaign.campaigns import faster, spec

COMMAND = (sys.executable, "-c", "from tuner.cli import main; main()")

Fstune = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def environment(state: Path, root: Path) -> dict[str, str]:
    hidden = {"COLUMNS", "LINES", "FORCE_COLOR", "NO_COLOR", "TERM"}
    variables = {name: value for name, value in os.environ.items() if name not in hidden}
    return variables | {
        "FSTUNE_STATE_DIR": str(state),
        "PYTHONPATH": str(root),
        "TERM": "xterm-256color",
        "LC_ALL": "C.UTF-8",
    }


@pytest.fixture
def fstune(environment: dict[str, str]) -> Fstune:
    """Return a function that runs the command to its end and captures its output through pipes."""

    def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*COMMAND, *map(str, arguments)],
            env=environment,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            check=False,
        )

    return run


@pytest.fixture
def campaign_file(tmp_path: Path) -> Path:
    """Return the file of a campaign that takes a moment and ends with a recommendation."""
    path = tmp_path / "campaign.yaml"
    document = spec(faster()).model_dump(mode="json", exclude_none=True)
    path.write_text(yaml.safe_dump(document))
    return path


@pytest.fixture
def long_file(tmp_path: Path) -> Path:
    """Return the file of a campaign that takes longer than any test waits."""
    path = tmp_path / "long.yaml"
    search = {"arms": 2, "blocks_per_trial": 3, "max_trials": 5000, "sampler": "random"}
    document = spec(noise=0.05, search=search, budget={"wall_time": "900d"})
    path.write_text(yaml.safe_dump(document.model_dump(mode="json", exclude_none=True)))
    return path
