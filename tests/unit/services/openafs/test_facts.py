"""Facts about a client before anything is changed."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from tests.unit.services.openafs.kernel_client import Machine
from tuner.errors import TestbedError
from tuner.hosts.local import LocalConnector
from tuner.services.openafs import fuse
from tuner.services.openafs.facts import ClientFacts, client_facts
from tuner.services.openafs.testbed_file import TestbedFile

FILE = Path(__file__).parents[3] / "data" / "testbeds" / "everything.yaml"
TOKEN = {"keytab": "/etc/bench.keytab", "principal": "bench"}


def facts(
    machine: Machine,
    *,
    token: bool = False,
    mount: Path | str = "/afs",
    campaign: str = "",
    control: object = None,
) -> ClientFacts:
    document = yaml.safe_load(FILE.read_text())
    control = control or {"systemd": {"mount": str(mount)}}
    client: dict[str, object] = {"name": "c1", "reach": {"local": {}}, "control": control}
    if token:
        client["token"] = TOKEN
    document["clients"] = [client]
    document["restore"]["directory"] = str(machine.here)
    file = TestbedFile.model_validate(document)
    return client_facts(LocalConnector(), file, file.clients[0], campaign)


def sees(machine: Machine, *, token: bool, script: str) -> bool:
    """Whether a client counts as seeing the path. ``script``: the body of its stat program."""
    program = machine.here / "bin" / "stat"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return facts(machine, token=token).sees


REFUSED = "echo \"stat: cannot statx '/afs/bench': Permission denied\" >&2; exit 1"
OFFLINE = "echo \"stat: cannot statx '/afs/bench': Input/output error\" >&2; exit 1"
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
    ("script", "answer"),
    [
        (OFFLINE, "Input/output error"),
        ("exit 124", "nothing within 20 s"),  # as timeout exits
        (ABSENT, ""),
        ("echo directory", ""),
        ("echo regular file", ""),
    ],
)
def test_a_volume_that_the_client_cannot_read_is_no_wrong_path(
    machine: Machine, script: str, answer: str
) -> None:
    assert sees(machine, token=False, script=script) is (script == "echo directory")
    assert facts(machine).unreadable == answer


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


def test_a_client_is_mounted_unless_it_may_be_down(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fuse, "look", lambda host, place: ((), f"none at {place.mount}"))
    control = {"fuse": {"mount": "/mnt"}}
    assert facts(machine, control=control).no_mount == "none at /mnt"
    (machine.here / "restore" / "cache_manager").mkdir(parents=True)
    assert facts(machine, control=control).no_mount == ""


@contextmanager
def inside(directory: Path, *words: str) -> Iterator[str]:
    """A process in a directory that has these words in its command line; yields its PID."""
    argv = ["sh", "-c", "read -r line", *words]
    with subprocess.Popen(argv, cwd=directory, stdin=subprocess.PIPE) as process:
        yield str(process.pid)
        process.communicate()


def test_only_runs_of_the_campaign_itself_may_use_the_client(machine: Machine) -> None:
    """They have outlived the process that measured, and the campaign ends them when it goes on."""
    mount = machine.here / "afs"
    mount.mkdir(exist_ok=True)
    run = ("python3", f"{machine.here}/workloads.pyz", "run", "--run-id", "c1-5-0")
    with (
        inside(mount, *run) as own,
        inside(mount, *run[:-1], "c2-5-0") as of_another,
        inside(mount, *run[:-2]) as no_run,
        inside(mount, "workloads.pyz", *run[2:]) as elsewhere,
        inside(mount) as stranger,
    ):
        others = {of_another, no_run, elsewhere, stranger}
        assert set(facts(machine, mount=mount, campaign="c1").holders) == others
        assert set(facts(machine, mount=mount).holders) == {own, *others}


def test_active_units_that_stop_with_the_client_are_named(machine: Machine) -> None:
    assert facts(machine).stop_too == ()
    machine.set("web.service")
    assert facts(machine).stop_too == ("web.service",)


def test_so_are_units_that_stop_with_its_mount(machine: Machine) -> None:
    """Those bound to it: systemd stops them when it is unmounted, by whatever."""
    machine.set("www.service", "backup.service")
    assert facts(machine, mount="/afs").stop_too == ("backup.service", "www.service")
    assert facts(machine, mount="/net").stop_too == ("backup.service",)


def test_what_would_prevent_a_restart_is_found_before_the_first(machine: Machine) -> None:
    """In the words of the script that restarts the client."""
    mount = machine.here / "afs"
    assert facts(machine, mount=mount).obstacles == ()
    machine.set("second", "no-module")
    mounted, module = facts(machine, mount=mount).obstacles
    assert mounted == f"{mount} is also mounted at /srv/afs; unmount that"
    assert module.startswith("the kernel module could not be loaded again: modinfo: ERROR: Module ")
    assert module.endswith(f"install it for kernel {os.uname().release}, or reboot")
    client = machine.client()
    with pytest.raises(TestbedError) as refusal:
        client.start(["-chunksize", "20"])
    assert str(refusal.value).endswith(f": {mounted};{module}; nothing was stopped")
    assert machine.calls() == []


def test_a_host_without_what_shows_mounts_is_not_taken_to_have_one(machine: Machine) -> None:
    machine.replace("findmnt", "[ -e", "echo findmnt: broken >&2; [ -e")
    assert facts(machine, mount=machine.here / "afs").obstacles == ("findmnt: broken",)
