"""Facts about a kernel client before anything is changed."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.unit.services.openafs.kernel_client import Machine
from tuner.hosts.local import LocalConnector
from tuner.services.openafs.facts import ClientFacts, client_facts
from tuner.services.openafs.file import TestbedFile

FILE = Path(__file__).parents[3] / "data" / "testbeds" / "everything.yaml"
TOKEN = {"keytab": "/etc/bench.keytab", "principal": "bench"}


def facts(machine: Machine, *, token: bool = False) -> ClientFacts:
    document = yaml.safe_load(FILE.read_text())
    client = {"name": "c1", "reach": {"local": {}}, "control": {"systemd": {}}}
    if token:
        client["token"] = TOKEN
    document["clients"] = [client]
    document["restore"]["directory"] = str(machine.here)
    file = TestbedFile.model_validate(document)
    return client_facts(LocalConnector(), file, file.clients[0])


def sees(machine: Machine, *, token: bool, script: str) -> bool:
    """Whether a client counts as seeing the path. ``script``: the body of its stat program."""
    program = machine.here / "bin" / "stat"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return facts(machine, token=token).sees


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


@pytest.mark.parametrize(
    ("state", "problem"),
    [
        ("LoadState=loaded\nActiveState=active\n", ""),
        ("LoadState=not-found\nActiveState=inactive\n", "not-found, inactive"),
        ("LoadState=loaded\nActiveState=failed\n", "loaded, failed"),
        ("", "unknown, unknown"),
    ],
)
def test_a_unit_runs_unless_the_client_may_be_down(
    machine: Machine, state: str, problem: str
) -> None:
    (machine.here / "unit").write_text(state)
    assert facts(machine).unit_problem == problem
    (machine.here / "restore" / "cache_manager").mkdir(parents=True)
    assert facts(machine).unit_problem == ""


def test_active_units_that_stop_with_the_client_are_named(machine: Machine) -> None:
    assert facts(machine).stop_too == ()
    machine.set("web.service")
    assert facts(machine).stop_too == ("web.service",)
