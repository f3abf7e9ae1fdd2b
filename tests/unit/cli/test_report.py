"""The command that writes reports."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tuner.cli.app import app
from tuner.errors import ConflictError, NotFoundError, SpecError
from tuner.page.document import ReportDocument
from tuner.store import Store


@pytest.fixture
def campaign(tmp_path: Path) -> str:
    """Return a campaign that has not started, in the state directory ``tmp_path``."""
    with Store.open(tmp_path) as store:
        return store.create_campaign("of reports", "{}", 1, datetime.now(UTC)).id


def fstune(directory: Path, *options: str) -> Result:
    return CliRunner().invoke(app, ["report", *options, "--state-dir", str(directory)])


def test_a_directory_gets_a_file_named_after_the_campaign(tmp_path: Path, campaign: str) -> None:
    done = fstune(tmp_path, "--html", str(tmp_path))
    assert done.exit_code == 0, done.output
    file = tmp_path / f"fstune-report-{campaign}.html"
    assert str(file) in done.output
    # Whoever ran fstune by sudo wants to open it as themselves.
    assert file.stat().st_mode & 0o777 == 0o666 & ~umask()
    page = file.read_text()
    assert page.startswith("<!doctype html>")
    assert "of reports" in page


def umask() -> int:
    value = os.umask(0o077)
    os.umask(value)
    return value


def test_a_path_that_names_a_directory_does_not_become_a_file(
    tmp_path: Path, campaign: str
) -> None:
    missing = tmp_path / "missing"
    assert isinstance(fstune(tmp_path, "--html", f"{missing}/").exception, NotFoundError)
    assert not missing.exists()


def test_an_existing_file_is_not_overwritten(tmp_path: Path, campaign: str) -> None:
    file = tmp_path / "kept"
    file.write_text("mine")
    assert isinstance(fstune(tmp_path, "--html", str(file)).exception, ConflictError)
    assert file.read_text() == "mine"


@pytest.mark.slow
def test_markdown_and_json_are_printed(tmp_path: Path, campaign: str) -> None:
    printed = fstune(tmp_path).output
    assert printed == fstune(tmp_path, campaign, "--markdown").output
    assert printed.startswith("# No answer yet")
    document = ReportDocument.model_validate_json(fstune(tmp_path, "--json").output)
    assert document.campaign == campaign
    assert fstune(tmp_path, "--html", "-").output.rstrip().endswith("</html>")


def test_one_form_is_chosen(tmp_path: Path, campaign: str) -> None:
    assert isinstance(fstune(tmp_path, "--markdown", "--json").exception, SpecError)
