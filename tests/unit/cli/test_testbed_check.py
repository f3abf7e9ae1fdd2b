"""What ``fstune testbed check`` says when it finds no problem."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from tuner.cli import testbed
from tuner.services.kind import Inspection


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ((), "No problem found so far; --dry-run also reads the settings of the clients."),
        (("--dry-run",), "No problem found: a campaign can be run here."),
    ],
)
def test_only_a_dry_run_says_that_a_campaign_can_be_run(
    options: tuple[str, ...], expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without it, the settings of the clients are not read, for which a campaign may be refused."""

    def inspect(file: Path, state: Path, *, dry_run: bool) -> Inspection:
        return Inspection(name="x", hosts=(), heading="", lines={}, findings=(), commands=())

    monkeypatch.setattr(testbed, "type_of_file", lambda file: SimpleNamespace(inspect=inspect))
    argv = ["check", "x.yaml", "--state-dir", str(tmp_path), *options]
    result = CliRunner().invoke(testbed.app, argv)
    assert result.exit_code == 0, result.output
    assert expected in result.output.splitlines()
