"""``fstune init`` on hosts over SSH: what it detects and writes, and its errors."""

from __future__ import annotations

import os
import subprocess

import pytest
import yaml

from deploy.cell import ssh
from deploy.cell.network import SERVER_ADDRESS, client_address
from tests.acceptance.lab import Lab

pytestmark = [pytest.mark.cell, pytest.mark.slow, pytest.mark.timeout(400)]

CLIENTS = f"{client_address(1)},{client_address(2)}"


def fstune(lab: Lab, *arguments: str, is_known: bool = True) -> subprocess.CompletedProcess[str]:
    """Run it where the hosts can be reached, with a home directory in which their keys are known,
    or another one.
    """
    home = lab.directory / ("home" if is_known else "stranger")
    (home / ".ssh").mkdir(parents=True, exist_ok=True)
    if is_known:
        (home / ".ssh" / "known_hosts").write_bytes((lab.directory / "known_hosts").read_bytes())
    return subprocess.run(
        lab.command(*arguments),
        env=lab.environment | {"HOME": str(home)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=120.0,
    )


def init(lab: Lab, *arguments: str, is_known: bool = True) -> subprocess.CompletedProcess[str]:
    return fstune(lab, "init", "--yes", "--start", "hosts", *arguments, is_known=is_known)


def reached(lab: Lab) -> list[str]:
    return [
        "--server",
        SERVER_ADDRESS,
        "--user",
        ssh.OPERATOR,
        "--key",
        str(lab.directory / "user"),
    ]


def test_hosts_fill_in_the_testbed_file(lab: Lab) -> None:
    file = lab.directory / "mine.yaml"
    done = init(lab, str(file), *reached(lab), "--clients", CLIENTS)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "OpenAFS 1.8" in done.stdout
    campaign = yaml.safe_load(file.read_text())
    assert campaign["testbed"] == {"hosts": "mine-testbed.yaml"}
    assert campaign["spaces"].keys() == {"fileserver", "cache_manager"}
    testbed = yaml.safe_load((lab.directory / "mine-testbed.yaml").read_text())
    assert testbed["server"]["address"] == SERVER_ADDRESS
    assert testbed["server"]["instance"] == "dafs"
    assert len(testbed["server"]["volumes"]) == 1
    assert [client["control"] for client in testbed["clients"]] == [{"fuse": {}}] * 2
    # The cell's third client may have called the server recently, but the file does not name it.
    checked = fstune(lab, "testbed", "check", str(lab.directory / "mine-testbed.yaml"))
    assert "host key" not in checked.stderr, checked.stderr
    assert ("No problem found" in checked.stdout) == (f"fstune run {file}" in done.stdout)
    assert lab.left() == []


def test_every_unreachable_host_is_reported_and_nothing_is_written(lab: Lab) -> None:
    file = lab.directory / "none.yaml"
    unknown = init(lab, str(file), *reached(lab), "--clients", CLIENTS, is_known=False)
    assert unknown.returncode == 6, unknown.stdout + unknown.stderr
    for address in (SERVER_ADDRESS, *CLIENTS.split(",")):
        assert f"{address}: its host key is not in" in unknown.stderr
        assert f"{address} >> " in unknown.stderr
    assert "ssh-keyscan" in unknown.stderr
    swapped = init(
        lab,
        str(file),
        *reached(lab)[2:],
        "--server",
        client_address(1),
        "--clients",
        SERVER_ADDRESS,
    )
    assert swapped.returncode == 6
    assert "bos" in swapped.stderr
    assert "neither afsd.fuse nor the kernel client" in swapped.stderr
    assert not [name for name in os.listdir(lab.directory) if "none" in name or ".fstune" in name]
