"""Assembly with a kernel client: settings lost by a restart are set and verified again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
import yaml

from tests.unit.services.openafs.kernel_client import SERVER, Machine
from tuner.hosts.connections import Hosts
from tuner.hosts.local import LocalConnector
from tuner.measure.workload import load_workload
from tuner.model import Configuration
from tuner.services.openafs import hosts
from tuner.services.openafs.assembly import (
    ClientHost,
    Layout,
    Requirements,
    assemble,
    usual_requirements,
)
from tuner.services.openafs.bosserver import FileserverPlace
from tuner.services.openafs.testbed_file import TestbedFile
from tuner.services.part import NotInEffect
from tuner.services.target import Target
from tuner.services.testbed import ReadyTestbed

FILE = Path(__file__).parents[3] / "data" / "testbeds" / "everything.yaml"


def bench(
    machine: Machine, requirements: Requirements, *, token: bool = False, alike: bool = True
) -> ReadyTestbed:
    """Assemble a bench with only this client; the server is not tuned."""
    directory = f"{machine.here}/restore"
    layout = Layout(str(machine.here), "/afs/bench", FileserverPlace(SERVER, directory), "kept")
    client = ClientHost(LocalConnector(), machine.place(token=token))
    work = load_workload("mixed-use")
    requirements = replace(requirements, fileserver=None)
    return assemble(LocalConnector(), [client], layout, requirements, work, alike=alike)


def quiet(what: str) -> None:
    """Ignore the text."""


def restore(target: Target) -> None:
    target.restore(quiet)


@pytest.mark.slow
def test_encryption_is_proven_after_every_start_for_a_cold_cache(machine: Machine) -> None:
    """A stage with a cold cache uses connections of its own."""
    testbed = bench(machine, usual_requirements("afsd"), token=True)
    in_clear = Configuration.of({"client_runtime.crypt": "off"})
    testbed.target.apply(in_clear, quiet)
    testbed.make_cold()
    assert machine.text("connection") == "clear"
    # After the next start, connections are encrypted in spite of the setting.
    machine.replace("fs", """cut -d' ' -f1 "$HERE/crypt" >""", "echo crypt >")
    with pytest.raises(NotInEffect, match=r"fs.crypt should show off, it shows on"):
        testbed.make_cold()
    restore(testbed.target)


@pytest.mark.slow
def test_untuned_settings_are_restored_after_every_start(machine: Machine) -> None:
    (machine.here / "storebehind").write_text("64")
    testbed = bench(machine, replace(usual_requirements("afsd"), client_runtime=None))
    assert set(testbed.target.parts) == {"cache_manager"}
    options = Configuration.of({"cache_manager.daemons": 5})
    testbed.target.apply(options, quiet)
    assert machine.text("storebehind") == "64"
    testbed.make_cold()
    assert machine.text("storebehind") == "64"
    assert machine.journals() == ["cache_manager", "client_runtime"]
    restore(testbed.target)
    assert machine.text("storebehind") == "64"
    assert machine.journals() == []


@pytest.mark.slow
def test_untuned_settings_survive_an_application_and_its_rollback(machine: Machine) -> None:
    (machine.here / "storebehind").write_text("64")
    requirements = replace(usual_requirements("afsd"), client_runtime=None)
    testbed = bench(machine, requirements)
    testbed.target.apply(Configuration.of({"cache_manager.daemons": 5}), quiet)
    part = testbed.target.parts["cache_manager"]
    part.keep("a1")  # type: ignore[attr-defined]
    assert machine.text("storebehind") == "64"
    assert machine.journals() == []
    later = bench(machine, requirements, alike=False)
    part = later.target.parts["cache_manager"]
    part.reopen("a1")  # type: ignore[attr-defined]
    restore(later.target)
    assert machine.options() == ("-chunksize", "18", "-afsdb")
    assert machine.text("storebehind") == "64"
    assert machine.journals() == []


@pytest.mark.slow
def test_default_runtime_settings_need_no_journal(machine: Machine) -> None:
    testbed = bench(machine, replace(usual_requirements("afsd"), client_runtime=None))
    testbed.make_cold()
    assert machine.journals() == ["cache_manager"]
    restore(testbed.target)


@pytest.mark.slow
def test_a_rehearsal_lists_what_the_running_client_would_be_given(machine: Machine) -> None:
    """It verifies nothing, since nothing is in effect."""
    (machine.here / "storebehind").write_text("64")
    document = yaml.safe_load(FILE.read_text())
    place = machine.place()
    unit = {"file": place.file, "mount": place.mount, "cache": place.cache}
    client = {"name": "c1", "reach": {"local": {}}, "control": {"systemd": unit}}
    document["clients"] = [client | {"token": {"keytab": "/etc/keytab", "principal": "bench"}}]
    document["restore"]["directory"] = str(machine.here)
    file = TestbedFile.model_validate(document)
    local = LocalConnector()
    there = cast(Hosts, SimpleNamespace(all=(local, local)))
    requirements = replace(usual_requirements("afsd"), fileserver=None)
    work = load_workload("mixed-use")
    stages = tuple(stage for stage in work.spec.stages if stage.cache == "cold")
    work = replace(work, spec=replace(work.spec, stages=stages))
    rehearsal = hosts.rehearse(file, there, requirements, work, ())
    commands = [command for _, command in rehearsal.commands]
    assert ("timeout", "20", "fs", "storebehind", "-allfiles", "64") in commands
    assert machine.calls() == []


def test_the_usual_requirements_are_all_that_a_client_takes() -> None:
    assert usual_requirements("afsd").client_runtime is not None
    assert usual_requirements("afsd.fuse").client_runtime is None
