"""The study of a guest records its own campaign or nothing, and never kills a campaign."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from bench.wollman.__main__ import HERE, main
from tests.unit.store import records
from tuner.cli.app import app
from tuner.services.openafs.kind import HostsType
from tuner.store import Store

#: Command prefixes that stand in for fstune.
REFUSES = [sys.executable, "-c", "import sys; sys.exit(5)"]
ACCEPTS = [sys.executable, "-c", ""]
#: When interrupted, it takes longer than a caller would usually wait.
_PUTS_BACK = """
import pathlib, signal, sys, time
def restore(*_):
    time.sleep(1.5)
    pathlib.Path("back").touch()
    sys.exit(130)
signal.signal(signal.SIGINT, restore)
pathlib.Path("ready").touch()
time.sleep(60)
"""
_STUDY = """
import sys
from pathlib import Path
from bench.wollman.__main__ import main
main("encryption", "vm", Path(), fstune=[sys.executable, "-c", sys.argv[1]], to=Path())
"""


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A state directory with another campaign, and the times of an earlier one."""
    with Store.open(tmp_path) as store:
        records.new_campaign(store)
    (tmp_path / "encryption.csv").write_text("of an earlier campaign\n")
    return tmp_path


@pytest.mark.parametrize("which", ["encryption", "server"])
def test_its_campaigns_are_valid(
    which: str, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All but the hosts, which are not there."""
    document = yaml.safe_load((HERE / f"{which}.yaml").read_text())
    document["testbed"] = {"hosts": str(root / "examples" / "encryption-testbed.yaml")}
    document["workload"] = str(HERE / document["workload"])
    file = tmp_path / "campaign.yaml"
    file.write_text(yaml.safe_dump(document))
    monkeypatch.setattr(HostsType, "rehearse", lambda *arguments: None)
    check = ["campaign", "check", str(file), "--state-dir", str(tmp_path)]
    result = CliRunner().invoke(app, check, catch_exceptions=False)
    assert result.exit_code == 0, result.output


def test_a_campaign_that_is_refused_writes_nothing(state: Path) -> None:
    with pytest.raises(SystemExit) as caught:
        main("encryption", "vm", state, fstune=REFUSES, to=state)
    assert caught.value.code == 5
    assert (state / "encryption.csv").read_text() == "of an earlier campaign\n"


def test_the_times_of_another_campaign_are_not_written(state: Path) -> None:
    with pytest.raises(SystemExit, match="the last campaign is 'small', not"):
        main("encryption", "vm", state, fstune=ACCEPTS, to=state)
    assert (state / "encryption.csv").read_text() == "of an earlier campaign\n"


@pytest.mark.slow
def test_ctrl_c_lets_the_campaign_put_the_guest_back(state: Path, root: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", _STUDY, _PUTS_BACK],
        cwd=state,
        env={**os.environ, "PYTHONPATH": str(root)},
        start_new_session=True,
    )
    try:
        for _ in range(1200):
            if (state / "ready").exists():
                break
            assert process.poll() is None
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        assert process.wait(60.0) == 130
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    assert (state / "back").exists()
    assert (state / "encryption.csv").read_text() == "of an earlier campaign\n"
