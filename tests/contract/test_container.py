"""The container file, as far as it can be tested without building it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import uvicorn
from typer.testing import CliRunner

from tuner.cli.app import app as command_line
from tuner.cli.serve import _Server


@pytest.fixture
def steps(root: Path) -> list[tuple[str, str]]:
    """The instructions with their arguments; continued lines are joined."""
    text = re.sub(r"(?m)^#.*\n", "", (root / "deploy" / "Containerfile").read_text())
    lines = text.replace("\\\n", "").splitlines()
    return [(line.partition(" ")[0], line.partition(" ")[2]) for line in lines if line.strip()]


def test_images_are_named_by_their_short_names_and_it_does_not_run_as_root(
    steps: list[tuple[str, str]],
) -> None:
    images = [argument.split()[0] for what, argument in steps if what == "FROM"]
    assert images
    assert all(re.fullmatch(r"[a-z]+:[0-9]+", image) for image in images)
    assert [argument for what, argument in steps if what == "USER"] == ["fstune"]


def test_its_command_line_is_one_that_the_service_takes(
    steps: list[tuple[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    instructions = dict(steps)
    assert json.loads(instructions["ENTRYPOINT"]) == ["fstune"]
    words = [str(tmp_path) if w.startswith("/") else w for w in json.loads(instructions["CMD"])]
    configurations: list[uvicorn.Config] = []
    monkeypatch.setattr(_Server, "run", lambda server: configurations.append(server.config))
    # The command sets environment variables for the application: undo that after the test.
    monkeypatch.setattr("os.environ", {})
    done = CliRunner().invoke(command_line, [*words, "--state-dir", str(tmp_path)])
    assert done.exit_code == 0, (done.output, done.exception)
    (configuration,) = configurations
    assert configuration.host == "0.0.0.0"
    assert str(configuration.port) == instructions["EXPOSE"]
