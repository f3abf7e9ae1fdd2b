"""What is refused before anything starts, and what a refusal must not hide."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tuner.cli.app import app
from tuner.states import CampaignState
from tuner.store import NewEvent, Store

SIMULATED = """
name: done
testbed: {simulated: {effects: [{parameter: cache_manager.daemons, low: 1, change: -0.2}]}}
spaces: {cache_manager: {name: openafs-cache-manager-fuse-1.8, only: [daemons]}}
workload: mixed-use
pilot: {blocks: 0}
search: {trials_per_race: 1, max_trials: 1}
"""

ON_A_CELL = """
name: wrong program
testbed: {{cell: {{}}}}
spaces:
  fileserver: {server}
  cache_manager: {client}
workload: mixed-use
"""


@pytest.mark.parametrize(
    ("server", "client", "said"),
    [
        (
            "openafs-fileserver-1.6",
            "openafs-cache-manager-fuse-1.8",
            "spaces.fileserver: openafs-fileserver-1.6 is not for what this testbed runs",
        ),
        (
            "openafs-fileserver-1.8",
            "openafs-cache-manager-linux-1.8",
            "spaces.cache_manager: openafs-cache-manager-linux-1.8 is not for what",
        ),
    ],
)
def test_spaces_of_programs_that_a_cell_does_not_run(
    tmp_path: Path, server: str, client: str, said: str
) -> None:
    file = tmp_path / "campaign.yaml"
    file.write_text(ON_A_CELL.format(server=server, client=client))
    state = tmp_path / "state"
    done = CliRunner().invoke(app, ["run", str(file), "--state-dir", str(state)])
    assert said in str(done.exception)
    assert not state.exists()


def test_last_is_the_newest_campaign_that_measured_something(tmp_path: Path) -> None:
    file = tmp_path / "campaign.yaml"
    file.write_text(SIMULATED)
    assert CliRunner().invoke(app, ["run", str(file), "--state-dir", str(tmp_path)]).exit_code == 0
    with Store.open(tmp_path) as store:
        measured = store.campaign("last").id
        now = datetime.now(UTC)
        refused = store.create_campaign("refused", "{}", 1, now).id
        event = NewEvent(now, "campaign-failed", "the cell is in use")
        store.move_campaign(refused, CampaignState.FAILED, "the cell is in use", event)
        assert store.campaign("last").id == measured
        assert store.campaigns()[0].id == refused


def test_output_that_cannot_be_written_is_told_in_one_line(tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-c", "from tuner.cli import main; main()", "list"],
            env={"FSTUNE_STATE_DIR": str(tmp_path), "PYTHONPATH": ":".join(sys.path)},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr == "fstune: the output cannot be written: No space left on device\n"
