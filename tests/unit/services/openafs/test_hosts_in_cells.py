"""Hosts in private cells: all cells use the same addresses, and a cell in use stays up."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

import search_spaces
from deploy.cell import CellError, Cells, CellSpec
from deploy.vm import Guests, seed
from tuner.errors import TestbedError
from tuner.measure.workload import load_workload
from tuner.services.kind import Needs
from tuner.services.lasting import LastingTestbed
from tuner.services.openafs import kind
from tuner.services.openafs.assembly import usual_requirements
from tuner.services.openafs.cell import CellTestbed

WORKLOAD = load_workload("mixed-use", 0.01)


def write_testbed(directory: Path, cell: str, **server: Any) -> str:
    """Write the testbed file of a guest in a cell."""
    node = {"cell": cell, "node": "server"}
    ssh = {"address": seed.ADDRESS, "known_hosts": "known_hosts", "agent": False, "netns": node}
    document = {
        "name": f"guest {cell}",
        "path": "/afs/.:mount/fstune.test:bench",
        "server": {"reach": {"netns": node}, "address": "10.77.0.1", "volumes": ["bench"]} | server,
        "clients": [{"name": "c", "reach": {"ssh": ssh}, "control": {"systemd": {}}}],
    }
    path = directory / f"{cell}.yaml"
    path.write_text(yaml.safe_dump(document))
    return str(path)


def test_guests_of_two_cells_are_two_testbeds_that_share_no_host(tmp_path: Path) -> None:
    hosts = kind.HostsType()
    one, other = write_testbed(tmp_path, "vm"), write_testbed(tmp_path, "vm2")
    names = {hosts.identity(file, tmp_path).name for file in (one, other)}
    assert len(names) == 2
    assert any("node server of cell vm2" in name for name in names)
    assert not set(hosts.hosts(one)) & set(hosts.hosts(other))
    # For the same cell they are the same, independent of the file name.
    again = tmp_path / "again.yaml"
    again.write_text(Path(one).read_text())
    assert hosts.identity(str(again), tmp_path).name == hosts.identity(one, tmp_path).name


def test_a_server_by_ssh_through_a_node_is_one_of_this_machine(tmp_path: Path) -> None:
    hosts = kind.HostsType()
    ssh = {"address": "fs9.example.org", "netns": {"cell": "vm", "node": "server"}}
    inside = write_testbed(tmp_path, "vm", reach={"ssh": ssh})
    outside = write_testbed(tmp_path, "vm2", reach={"ssh": {"address": "fs9.example.org"}})
    assert " on node server of cell vm from " in hosts.identity(inside, tmp_path).name
    assert hosts.identity(outside, tmp_path).name == "fileserver dafs at 10.77.0.1"
    assert "host fs9.example.org" in hosts.hosts(outside)
    assert "host fs9.example.org from node server of cell vm" in hosts.hosts(inside)


def lasting(file: str, state: Path, putting_back: bool) -> LastingTestbed:
    spaces = {"cache_manager": search_spaces.load("openafs-cache-manager-linux-1.8")}
    needs = Needs(spaces, WORKLOAD)
    return kind.HostsType().lasting(file, "testbed", needs, state, putting_back=putting_back)


@contextmanager
def opening(file: str, state: Path, message: str, *, putting_back: bool = False) -> Iterator[None]:
    """Open a testbed, which fails with ``message`` without a cell, and close it on exit."""
    testbed = lasting(file, state, putting_back)
    try:
        with pytest.raises(TestbedError, match=message):
            testbed.open(WORKLOAD, lambda text: None)
        yield
    finally:
        testbed.close()


NOT_UP = "no node 'server' of a private cell 'vm' is up; see 'fstune cell status'"
IN_USE = "cell vm is in use by a running campaign"


def test_a_cell_with_hosts_that_are_in_use_stays_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    file, state = write_testbed(tmp_path, "vm"), tmp_path / "state"
    (state / "cells" / "vm").mkdir(parents=True)
    with opening(file, state, NOT_UP), opening(file, state, NOT_UP):
        for down in (Cells(state).down, Guests(state).down):
            with pytest.raises(CellError, match=IN_USE):
                down("vm")
    assert Cells(state).down("vm")


def test_a_cell_in_use_can_still_be_restored(tmp_path: Path) -> None:
    file, state = write_testbed(tmp_path, "vm"), tmp_path / "state"
    with Cells(state).use("vm"):
        with opening(file, state, IN_USE):
            pass
        with opening(file, state, NOT_UP, putting_back=True):
            pass


def test_a_user_other_than_root_has_nothing_to_restore(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The error says that a cell needs root, and nothing else."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    testbed = CellTestbed(tmp_path, CellSpec("mine"), usual_requirements("afsd.fuse"))
    assert testbed.claim("campaign")
    with pytest.raises(TestbedError, match=r"^a private cell needs root"):
        testbed.open(WORKLOAD, print)
    assert testbed.close() is None
