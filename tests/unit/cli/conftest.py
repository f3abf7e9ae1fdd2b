"""Fixtures that run the command line, in this process or in another, on simulated campaigns."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import pytest
import yaml
from typer.testing import CliRunner

from tests.unit.campaign.campaigns import faster, spec
from tuner.cli import main
from tuner.cli.app import app
from tuner.store import Store

COMMAND = (sys.executable, "-c", "from tuner.cli import main; main()")

Fstune = Callable[..., "subprocess.CompletedProcess[str]"]


@contextmanager
def process_of(
    environment: dict[str, str], *arguments: str | Path, stderr: int = subprocess.PIPE
) -> Iterator[subprocess.Popen[str]]:
    """Run the command in a process of its own, which is killed at the end if it still runs.

    The pipe for its output is small: a campaign that is far ahead of its reader waits, instead of
    taking the processor from what the test does meanwhile.
    """
    with subprocess.Popen(
        [*COMMAND, *map(str, arguments)],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        pipesize=4096,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


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
def fstune(environment: dict[str, str], capfd: pytest.CaptureFixture[str]) -> Fstune:
    """Return a function that runs the command to its end in this process and captures its output.

    A process of its own would take most of a second to begin.
    """

    def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
        line = ["fstune", *map(str, arguments)]
        # In a process without a terminal, the output is as wide as this.
        variables = environment | {"COLUMNS": "80"}
        capfd.readouterr()
        with (
            Path(os.devnull).open() as stdin,
            patch.dict(os.environ, variables, clear=True),
            patch.multiple(sys, argv=line, stdin=stdin),
            pytest.raises(SystemExit) as end,
        ):
            main()
        assert isinstance(end.value.code, int)
        return subprocess.CompletedProcess(line, end.value.code, *capfd.readouterr())

    return run


@pytest.fixture
def fstune_process(environment: dict[str, str]) -> Fstune:
    """Return a function that runs the command to its end in a process of its own and captures its
    output through pipes.
    """

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
    return write_campaign(tmp_path)


def write_campaign(directory: Path) -> Path:
    path = directory / "campaign.yaml"
    document = spec(faster()).model_dump(mode="json", exclude_none=True)
    path.write_text(yaml.safe_dump(document))
    return path


@pytest.fixture(scope="session")
def one_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the state directory of a campaign that has ended, for tests to copy."""
    directory = tmp_path_factory.mktemp("finished")
    file = write_campaign(directory)
    done = CliRunner().invoke(app, ["run", str(file), "--state-dir", str(directory / "state")])
    assert done.exit_code == 0, done.output
    return directory / "state"


@pytest.fixture
def finished(one_run: Path, state: Path) -> str:
    """Put a campaign that has ended into the state directory; return its identifier."""
    shutil.copytree(one_run, state)
    with Store.open(state) as store:
        return store.campaign("last").id


@pytest.fixture
def long_file(tmp_path: Path) -> Path:
    """Return the file of a campaign that takes longer than any test waits."""
    path = tmp_path / "long.yaml"
    search = {"arms": 2, "blocks_per_trial": 3, "max_trials": 5000, "sampler": "random"}
    document = spec(noise=0.05, search=search, budget={"wall_time": "900d"})
    path.write_text(yaml.safe_dump(document.model_dump(mode="json", exclude_none=True)))
    return path
