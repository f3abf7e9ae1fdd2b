"""Facts about a kernel client before anything is changed."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.unit.services.openafs.kernel_client import Machine
from tuner.hosts.local import LocalConnector
from tuner.services.openafs.facts import client_facts
from tuner.services.openafs.file import TestbedFile

FILE = Path(__file__).parents[3] / "data" / "testbeds" / "everything.yaml"
TOKEN = {"keytab": "/etc/bench.keytab", "principal": "bench"}


def sees(machine: Machine, *, token: bool, script: str) -> bool:
    """Whether a client counts as seeing the path. ``script``: the body of its stat program."""
    document = yaml.safe_load(FILE.read_text())
    client = {"name": "c1", "reach": {"local": {}}, "control": {"systemd": {}}}
    if token:
        client["token"] = TOKEN
    document["clients"] = [client]
    document["restore"]["directory"] = str(machine.here)
    file = TestbedFile.model_validate(document)
    program = machine.here / "bin" / "stat"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return client_facts(LocalConnector(), file, file.clients[0]).sees


REFUSED = "echo \"stat: cannot statx '/afs/bench': Permission denied\" >&2; exit 1"
ABSENT = "echo \"stat: cannot statx '/afs/bench': No such file or directory\" >&2; exit 1"


@pytest.mark.parametrize(
    ("script", "token", "expected"),
    [
        (REFUSED, True, True),
        (REFUSED, False, False),
        (ABSENT, True, False),
        ("echo directory", False, True),
        ("echo regular file", True, False),
    ],
)
def test_a_volume_that_needs_a_token_counts_as_visible_if_there_will_be_one(
    machine: Machine, script: str, token: bool, expected: bool
) -> None:
    assert sees(machine, token=token, script=script) is expected
