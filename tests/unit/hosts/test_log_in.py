"""Reading known_hosts: a damaged line is as if it were absent."""

from __future__ import annotations

from pathlib import Path

import paramiko
import pytest

from tuner.hosts.log_in import SshHost, _load_known_hosts

ED25519 = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAA"


@pytest.mark.parametrize(
    "damaged",
    [
        f"other {ED25519}I",  # cut off within a character of base64
        f"other {ED25519}",
        "other ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAAAAwAAAA==",
        "other ssh-rsa AAAAAv//",
        "other ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAC//8AAAAB",
        "|1|c2hvcnQ=|c2hvcnQ= {key}",
        "|1| {key}",
        "other",
    ],
)
def test_a_damaged_line_makes_no_other_host_unusable(tmp_path: Path, damaged: str) -> None:
    key = paramiko.ECDSAKey.generate()
    line = f"{key.get_name()} {key.get_base64()}"
    path = tmp_path / "known_hosts"
    path.write_text(f"{damaged.format(key=line)}\nfs9 {line}\n")
    client = paramiko.SSHClient()
    _load_known_hosts(client, SshHost("fs9", known_hosts=path))
    assert client.get_host_keys().check("fs9", key)
    assert not client.get_host_keys().check("other", key)
