"""Refusals before anything starts, and what they must not hide."""

from __future__ import annotations

import errno
import gzip
import os
import re
import socket
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.unit.cli.conftest import COMMAND, Fstune
from tuner.cli.app import app, main
from tuner.errors import ConflictError, NotFoundError, TunerError
from tuner.states import CampaignState
from tuner.store import NewEvent, Store
from tuner.store.access import Access

pytestmark = pytest.mark.slow

ON_A_CELL = """
name: wrong program
testbed: {{cell: {{}}}}
spaces:
  fileserver: {server}
  cache_manager: {client}
workload: mixed-use
"""


@pytest.mark.parametrize(
    ("server", "client", "message"),
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
    tmp_path: Path, server: str, client: str, message: str
) -> None:
    file = tmp_path / "campaign.yaml"
    file.write_text(ON_A_CELL.format(server=server, client=client))
    state = tmp_path / "state"
    done = CliRunner().invoke(app, ["run", str(file), "--state-dir", str(state)])
    assert message in str(done.exception)
    assert not state.exists()


@pytest.mark.parametrize("part", ["volserver", "fileserver"])
def test_a_space_for_no_campaign_says_what_it_is_for(tmp_path: Path, part: str) -> None:
    file = tmp_path / "campaign.yaml"
    spaces = f"{{{part}: openafs-volserver-1.8, cache_manager: openafs-cache-manager-fuse-1.8}}"
    file.write_text(f"name: x\ntestbed: {{cell: {{}}}}\nspaces: {spaces}\nworkload: mixed-use\n")
    done = CliRunner().invoke(app, ["campaign", "check", str(file), "--state-dir", str(tmp_path)])
    message = (
        f"spaces.{part}: openafs-volserver-1.8 is not for campaigns, but for fstune space "
        "(show, sample, parse); "
    )
    assert message in str(done.exception)


def test_last_is_the_newest_campaign_that_measured_something(finished: str, state: Path) -> None:
    with Store.open(state) as store:
        now = datetime.now(UTC)
        refused = store.create_campaign("refused", "{}", 1, now).id
        event = NewEvent(now, "campaign-failed", "the cell is in use")
        store.move_campaign(refused, CampaignState.FAILED, "the cell is in use", event)
        assert store.campaign("last").id == finished
        assert store.campaigns()[0].id == refused


@pytest.mark.parametrize("command", [("delete", "--yes"), ("cancel",)])
def test_what_cannot_be_undone_needs_more_than_last(
    fstune: Fstune, finished: str, state: Path, command: tuple[str, ...]
) -> None:
    done = fstune(*command, "last")
    assert done.returncode == 2
    assert done.stdout == ""
    with Store.open(state) as store:
        name = store.campaign(finished).name
    assert done.stderr == (
        f"fstune: 'last' is not accepted for what cannot be undone; it would be {finished} "
        f"({name}); give its identifier: fstune {command[0]} {finished}\n"
    )


def into_a_full_disk(state: Path, *command: str) -> None:
    """Run a command whose output cannot be written, and check how it ends."""
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*COMMAND, *command],
            env={"FSTUNE_STATE_DIR": str(state), "PYTHONPATH": ":".join(sys.path)},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr == "fstune: the output cannot be written: No space left on device\n"


def test_output_that_cannot_be_written_is_reported_in_one_line(tmp_path: Path) -> None:
    into_a_full_disk(tmp_path, "list")


def test_a_token_that_cannot_be_printed_is_of_no_use(tmp_path: Path) -> None:
    into_a_full_disk(tmp_path, "token", "create", "one")
    with Store.open(tmp_path) as store:
        (token,) = Access(store).tokens()
    assert token.revoked is not None


@pytest.mark.parametrize("is_closed", [False, True], ids=["full", "closed"])
def test_the_status_of_an_error_does_not_need_standard_error(
    tmp_path: Path, is_closed: bool
) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*COMMAND, "show", "nosuch"],
            env={"FSTUNE_STATE_DIR": str(tmp_path), "PYTHONPATH": ":".join(sys.path)},
            stdout=subprocess.PIPE,
            stderr=full,
            preexec_fn=(lambda: os.close(2)) if is_closed else None,
            text=True,
            check=False,
        )
    assert (done.returncode, done.stdout) == (NotFoundError.exit_code, "")


ENDLESS = "/dev/zero"


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (("run", ENDLESS), "it is not a regular file"),
        (("testbed", "check", ENDLESS), "it is not a regular file"),
        (("space", "show", ENDLESS), "it is not a regular file"),
        (("workload", "show", ENDLESS), "cannot read /dev/zero: it is not a regular file"),
        (("compare", ENDLESS, ENDLESS), "/dev/zero: longer than 64 MiB"),
        (("import", ENDLESS), "not an exported campaign"),
        (("import", "missing"), "missing: cannot be read: No such file"),
        (("compare", "a\0b", "c"), "not a valid path"),
        (("workload", "show", "/"), "cannot read /: Is a directory"),
        (("workload", "engine", "/"), "it exists and is not a regular file"),
        (("export", "last", ""), "exists; name a new file"),
        (("show", "f\udcfcnf"), "there is no campaign"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_an_unusable_file(tmp_path: Path, command: tuple[str, ...], message: str) -> None:
    needs_store = {"import", "export", "show"} & {command[0]}
    options = ("--state-dir", str(tmp_path)) if needs_store else ()
    if needs_store:
        with Store.open(tmp_path) as store:
            store.create_campaign("done", "{}", 1, datetime.now(UTC))
    done = CliRunner().invoke(app, [*command, *options])
    assert isinstance(done.exception, TunerError)
    assert message in str(done.exception)


def test_a_path_that_is_too_long(fstune: Fstune) -> None:
    done = fstune("workload", "run", "mixed-use", "--dir", "x" * 5000)
    assert done.returncode == 2
    assert done.stderr.endswith("x: the path is too long\n")


def test_an_address_that_is_in_use_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        options = ["--port", port, "--state-dir", str(tmp_path)]
        done = CliRunner().invoke(app, ["serve", *options])
    assert isinstance(done.exception, ConflictError)
    assert str(done.exception).endswith(f"--port {port}: Address already in use; name another")


def test_an_invalid_certificate_is_refused_before_anything_is_served(tmp_path: Path) -> None:
    certificate, key = tmp_path / "chain.pem", tmp_path / "key.pem"
    certificate.write_text("no certificate")
    key.write_text("no key")
    tls = ["--tls-cert", str(certificate), "--tls-key", str(key)]
    done = CliRunner().invoke(app, ["serve", *tls, "--state-dir", str(tmp_path / "state")])
    assert "not a PEM certificate and its private key" in str(done.exception)
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize(
    "command", [["list"], ["show"], ["status"], ["resume", "last"], ["db", "check"]], ids=" ".join
)
def test_a_mistyped_state_directory_is_reported_and_not_created(
    fstune: Fstune, tmp_path: Path, command: list[str]
) -> None:
    mistyped = tmp_path / "mistyped"
    done = fstune(*command, "--state-dir", mistyped)
    assert done.returncode == 2
    assert done.stderr.startswith(f"fstune: --state-dir {mistyped}: no fstune database")
    assert not mistyped.exists()


def test_the_default_state_directory_is_created(fstune: Fstune) -> None:
    assert fstune("list").returncode == 0


def test_an_exported_campaign_goes_through_a_pipe_and_replaces_no_file(
    fstune: Fstune, environment: dict[str, str], state: Path, tmp_path: Path
) -> None:
    with Store.open(state) as store:
        campaign = store.create_campaign("done", "{}", 1, datetime.now(UTC)).id
    done = subprocess.run(
        [*COMMAND, "export", "done", "-"],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        check=True,
    )
    assert campaign in gzip.decompress(done.stdout).decode()
    assert not (tmp_path / "-").exists()
    existing = tmp_path / "mine"
    existing.write_text("mine")
    refused = fstune("export", "last", existing)
    assert refused.returncode == ConflictError.exit_code
    assert refused.stderr == f"fstune: {existing} exists; name a new file\n"
    assert existing.read_text() == "mine"


def test_a_place_without_permission_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Python's Path.exists raises there, for whoever is not root."""

    def refused(path: Path) -> bool:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "exists", refused)
    monkeypatch.setattr(sys, "argv", ["fstune", "list", "--state-dir", "/secret/state"])
    with pytest.raises(SystemExit) as exit_info:
        main()
    assert exit_info.value.code == 2
    assert re.fullmatch(r"fstune: /secret/state.*: Permission denied\n", capsys.readouterr().err)


@pytest.mark.parametrize("extra", [["c2026"], ["--part", "fileserver"], ["--verbose"]])
def test_a_list_of_all_recommendations_takes_nothing_of_one(
    state: Path, fstune: Fstune, extra: list[str]
) -> None:
    done = fstune("recommend", *extra, "--all")
    assert done.returncode == 2
    assert "--all lists all campaigns: it takes no campaign, --part or --verbose" in done.stderr
