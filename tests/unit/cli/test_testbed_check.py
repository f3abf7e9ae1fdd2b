"""What ``fstune testbed check`` says of hosts without a problem, and of those out of reach."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from tuner.cli import testbed
from tuner.cli.app import app
from tuner.errors import AccessError, TestbedError, TransportError, evidence
from tuner.hosts import other_holds
from tuner.hosts.connector import Connector
from tuner.services import restoring
from tuner.services.kind import Inspection
from tuner.services.openafs import hosts


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ((), "No problem found so far; --dry-run also reads the settings of the clients."),
        (
            ("--dry-run",),
            "No problem found: a campaign can be run here, if its clients may write to the path.",
        ),
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


TESTBED = """name: x
path: /afs/.:mount/example.org:bench
server:
  name: fs9
  reach: {ssh: {address: 192.0.2.9, key: there}}
  address: 192.0.2.9
  volumes: [bench]
clients:
  - name: c1
    reach: {ssh: {address: 192.0.2.10, known_hosts: there}}
    control: {fuse: {}}
  - name: c2
    reach: {ssh: {address: 192.0.2.11, jump: {address: 192.0.2.1, key: there}}}
    control: {fuse: {}}
"""
CAMPAIGN = """name: mine
testbed: {hosts: testbed.yaml}
spaces: {cache_manager: openafs-cache-manager-fuse-1.8}
workload: mixed-use
"""
CHECKS = [("testbed", "check", "testbed.yaml"), ("campaign", "check", "campaign.yaml")]


@pytest.fixture
def attempts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """No host but 192.0.2.10 can be reached; returns those that were tried."""
    asked_hosts: list[str] = []

    def host_facts(host: Connector, directories: object) -> None:
        asked_hosts.append(host.host)
        if host.host != "192.0.2.10":
            raise TransportError(f"root@{host.host}: No route to host", {"host": host.host})

    monkeypatch.setattr(hosts, "host_facts", host_facts)
    return asked_hosts


def failure(directory: Path, *command: str) -> TestbedError:
    (directory / "campaign.yaml").write_text(CAMPAIGN)
    (directory / "there").touch()
    *words, name = command
    arguments = [*words, str(directory / name), "--state-dir", str(directory / "state")]
    error = CliRunner().invoke(app, arguments).exception
    assert isinstance(error, TestbedError)
    assert error.exit_code == 6
    return error


@pytest.mark.parametrize("command", CHECKS)
def test_every_host_that_cannot_be_reached_is_named(
    command: tuple[str, ...], tmp_path: Path, attempts: list[str]
) -> None:
    (tmp_path / "testbed.yaml").write_text(TESTBED)
    error = failure(tmp_path, *command)
    assert sorted(attempts) == ["192.0.2.10", "192.0.2.11", "192.0.2.9"]
    assert str(error) == (
        "fs9: root@192.0.2.9: No route to host; c2: root@192.0.2.11: No route to host"
    )
    assert isinstance(error, TransportError)
    assert evidence(error) == {"failure": "transport", "host": "192.0.2.9"}


@pytest.mark.parametrize("command", CHECKS)
def test_files_that_do_not_exist_are_named_before_any_host_is_tried(
    command: tuple[str, ...], tmp_path: Path, attempts: list[str]
) -> None:
    (tmp_path / "testbed.yaml").write_text(TESTBED.replace("there", "gone"))
    error = failure(tmp_path, *command)
    assert attempts == []
    keys = (
        "server.reach.ssh.key",
        "clients.0.reach.ssh.known_hosts",
        "clients.1.reach.ssh.jump.key",
    )
    assert str(error) == "; ".join(
        f"{key}: there is no file {tmp_path / 'gone'}; correct the path, or create the file"
        for key in keys
    )
    assert isinstance(error, AccessError)


def test_a_missing_file_does_not_keep_other_hosts_from_being_restored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "testbed.yaml").write_text(TESTBED.replace("there", "gone"))
    monkeypatch.setattr(restoring, "restore", lambda hosts, *rest: [hosts[2].host])
    monkeypatch.setattr(other_holds, "check_no_others", lambda *_: None)
    arguments = ["testbed", "restore", str(tmp_path / "testbed.yaml")]
    result = CliRunner().invoke(app, [*arguments, "--state-dir", str(tmp_path)])
    assert result.exit_code == 0, result.exception
    assert "192.0.2.11" in result.output


def test_the_usual_known_hosts_need_not_exist(
    tmp_path: Path, attempts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The refusal of a host that is not in it shows the key, and how to add it."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "testbed.yaml").write_text(TESTBED)
    failure(tmp_path, *CHECKS[0])
    assert len(attempts) == 3
