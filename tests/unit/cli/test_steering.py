"""Campaigns that other processes run: what their status is, and when they are not resumed."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
import yaml

import workloads
from tests.unit.cli.conftest import Fstune, process_of
from tests.waiting import wait_for_line

pytestmark = pytest.mark.slow

LIMIT_S = 60.0


def test_a_campaign_whose_workload_has_changed_is_not_resumed(
    fstune: Fstune, environment: dict[str, str], long_file: Path, tmp_path: Path
) -> None:
    workload = tmp_path / "workload.yaml"
    packaged = yaml.safe_load(workloads.load("mixed-use").text)
    workload.write_text(yaml.safe_dump(packaged))
    document = yaml.safe_load(long_file.read_text())
    document["workload"] = {"name": str(workload)}
    long_file.write_text(yaml.safe_dump(document))
    with process_of(environment, "run", long_file) as process:
        wait_for_line(process, "block 1 complete", LIMIT_S)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=LIMIT_S)
    workload.write_text(yaml.safe_dump(packaged | {"wall_clock_limit_s": 4321}))
    refused = fstune("resume", "--quiet")
    assert (refused.returncode, refused.stdout) == (4, "")
    (message,) = refused.stderr.strip().splitlines()
    assert "was measured: workload (wall_clock_limit_s: 4321" in message
    assert "fstune branch" in message
    assert " paused " in fstune("list").stdout
