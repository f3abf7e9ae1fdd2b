"""Faults while a configuration is applied on hosts over SSH: afterwards the old one is in force, or
all of the new one.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import yaml

from deploy.cell import Node
from deploy.cell.client import VOLUME_PATH
from deploy.cell.network import SERVER_ADDRESS
from tests.acceptance.faults import delete_fileserver, hear_nothing, standing_in
from tests.acceptance.lab import CACHE_BLOCKS, Lab
from tests.acceptance.processes import runs_with
from tests.integration.conftest import process_in
from tests.recommending import recommending
from tests.waiting import wait_for
from tuner.applications import Application
from tuner.model import Value
from tuner.spec.campaign import read_spec
from tuner.states import ApplicationState
from tuner.store import Store
from tuner.store.applications import Applications
from workloads import rundir

pytestmark = [pytest.mark.cell, pytest.mark.slow, pytest.mark.timeout(400)]

INITIAL: dict[str, Value] = {"cache_manager.blocks": CACHE_BLOCKS}
RECOMMENDED: dict[str, Value] = INITIAL | {"fileserver.threads": 20, "cache_manager.daemons": 5}


@pytest.fixture
def lab(lab: Lab) -> Lab:
    lab.campaign([])
    return lab


def recommended(lab: Lab, configuration: dict[str, Value] = RECOMMENDED) -> str:
    with Store.open(lab.state) as store:
        spec = read_spec(lab.directory / "campaign.yaml")
        return recommending(store, spec, INITIAL, configuration).id


def newest(lab: Lab) -> Application:
    with Store.open(lab.state) as store:
        return Applications(store).all()[0]


@contextmanager
def applying(lab: Lab) -> Iterator[subprocess.Popen[str]]:
    """Run an application that changes both parts."""
    with lab.running("apply", recommended(lab), "--yes") as process:
        yield process


def kill_while_applying(lab: Lab) -> None:
    """Leave the hosts with the new options of an application whose process was killed."""
    with applying(lab) as process:
        wait_for(lambda: runs_with(lab.server, "dafileserver", "-p", "20"), "the new options")
        process.kill()
        process.wait()


def roll_back(lab: Lab) -> None:
    settled = lab.fstune("rollback", newest(lab).id, "--yes")
    assert settled.returncode == 0, settled.stdout + settled.stderr
    assert newest(lab).state is ApplicationState.FAILED


def serves(client: Node) -> bool:
    """Whether the cache manager leads a session of its own: what started it ends before long."""
    process = process_in(client, "afsd.fuse")
    try:
        return process is not None and os.getsid(process.pid) == process.pid
    except ProcessLookupError:
        return False


def is_new(lab: Lab) -> bool:
    programs = lab.programs()
    return all("-daemons" in programs[node.name] for node in lab.clients)


def test_a_server_that_does_not_start_gets_its_old_options_back(lab: Lab) -> None:
    campaign = recommended(lab, RECOMMENDED | {"fileserver.vlru_interval": 0})
    failed = lab.fstune("apply", campaign, "--yes")
    assert failed.returncode == 7, failed.stdout + failed.stderr
    assert "the fileserver does not start with these options" in failed.stderr
    assert newest(lab).state is ApplicationState.FAILED
    assert "does not start" in newest(lab).reason
    lab.restore()  # a watch takes a moment to end


def test_a_stop_signal_brings_the_old_options_back(lab: Lab) -> None:
    with applying(lab) as process:
        wait_for(lambda: runs_with(lab.server, "dafileserver", "-p", "20"), "the new options")
        process.send_signal(signal.SIGINT)
        assert process.wait(150.0) == 130, lab.output
    assert newest(lab).state is ApplicationState.FAILED
    assert newest(lab).reason == "stopped by SIGINT"


def test_a_client_that_is_killed_brings_the_old_options_back(lab: Lab) -> None:
    node = lab.clients[0]
    with applying(lab) as process:
        wait_for(
            lambda: runs_with(node, "afsd.fuse", "-daemons") and serves(node), "the new client"
        )
        client = process_in(node, "afsd.fuse")
        assert client is not None
        client.kill()
        assert process.wait(250.0) in (6, 7, 8), lab.output
    assert newest(lab).state is ApplicationState.FAILED


def test_a_fileserver_that_somebody_has_stopped_is_not_started_by_a_rollback(lab: Lab) -> None:
    applied = lab.fstune("apply", recommended(lab), "--yes")
    assert applied.returncode == 0, applied.stdout + applied.stderr
    instance = [SERVER_ADDRESS, "dafs", "-localauth"]
    assert lab.server.run(["bos", "shutdown", *instance, "-wait"]).status == 0
    checked = lab.fstune("testbed", "check", str(lab.directory / "testbed.yaml"), "--dry-run")
    refused = lab.fstune("rollback", newest(lab).id, "--yes")
    stopped = process_in(lab.server, "dafileserver") is None
    assert lab.server.run(["bos", "start", *instance]).status == 0
    assert (checked.returncode, refused.returncode, stopped) == (4, 6, True), refused.stderr
    assert "currently shutdown; start it first" in checked.stderr
    assert "currently shutdown; start it first: bos start" in refused.stderr
    wait_for(lambda: runs_with(lab.server, "dafileserver", "-p", "20"), "the fileserver")
    settled = lab.fstune("rollback", newest(lab).id, "--yes")
    assert settled.returncode == 0, settled.stdout + settled.stderr
    assert newest(lab).state is ApplicationState.ROLLED_BACK


def test_hosts_whose_controller_is_killed_put_themselves_back(lab: Lab) -> None:
    kill_while_applying(lab)
    hear_nothing(lab)
    lab.restore()
    assert newest(lab).state is ApplicationState.APPLYING
    refused = lab.fstune("run", str(lab.directory / "campaign.yaml"))
    assert refused.returncode == 4
    assert "undo it first: fstune rollback" in refused.stderr
    roll_back(lab)


def test_while_it_is_unfinished_another_restore_directory_is_refused(lab: Lab) -> None:
    """What undoes it is only in the directory of the time when it began."""
    kill_while_applying(lab)
    file = lab.directory / "testbed.yaml"
    document = yaml.safe_load(file.read_text())
    document["restore"]["directory"] = "/var/lib/fstune-other"
    file.write_text(yaml.safe_dump(document))
    sentence = (
        "with restore.directory /var/lib/fstune-restore, and has not been restored from there"
    )
    for command in (
        ("rollback", newest(lab).id, "--yes"),
        ("apply", newest(lab).id, "--yes"),
        ("testbed", "restore", str(file)),
    ):
        refused = lab.fstune(*command)
        assert refused.returncode == 4, (command, refused.stdout, refused.stderr)
        assert f"by {newest(lab).id} on" in refused.stderr, command
        assert sentence in refused.stderr, command
        assert newest(lab).state is ApplicationState.APPLYING
        assert runs_with(lab.server, "dafileserver", "-p", "20")
    document["restore"]["directory"] = "/var/lib/fstune-restore"
    file.write_text(yaml.safe_dump(document))
    roll_back(lab)
    lab.restore()  # a watch takes a moment to end


def test_files_of_a_rollback_that_was_killed_in_its_last_check_are_removed(lab: Lab) -> None:
    """It is rolled back by then, so nobody will repeat it."""
    campaign = recommended(lab)
    assert lab.fstune("apply", campaign, "--yes").returncode == 0
    application = newest(lab)
    with lab.running("rollback", application.id, "--yes") as process:
        wait_for(lambda: newest(lab).state is ApplicationState.ROLLED_BACK, "the last check")
        process.kill()
        process.wait()
    # The check may not have got as far as that.
    run_id = f"{application.id}-2-0-1"
    marker = json.dumps({"made_by": rundir._OWNER, "run_id": run_id})
    make = f'mkdir -p "$1" && printf %s "$2" > "$1/{rundir.MARKER}"'
    directory = f"{VOLUME_PATH}/fstune-{run_id}"
    lab.clients[0].check(["sh", "-c", make, "sh", directory, marker])
    assert files_of(lab, application.id) != []
    planned = lab.fstune("apply", campaign, "--plan")
    assert planned.returncode == 0, planned.stdout + planned.stderr
    assert files_of(lab, application.id) == []
    lab.restore()  # a watch takes a moment to end


def files_of(lab: Lab, application: str) -> list[str]:
    """What runs of an application have on the volume now."""
    listing = lab.clients[0].check(["ls", "-1A", VOLUME_PATH]).split()
    return [name for name in listing if name.startswith(f"fstune-{application}")]


def test_a_server_without_its_instance_is_rolled_back(lab: Lab) -> None:
    kill_while_applying(lab)
    delete_fileserver(lab)
    roll_back(lab)
    lab.restore()  # a watch takes a moment to end


@contextmanager
def killed_at_commit(lab: Lab) -> Iterator[None]:
    """Kill an application when the server and one client have committed it, but not the other."""
    node: Node = lab.clients[1]
    gate = node.shared / "gate-commit"
    met = gate.with_name(f"{gate.name}.met")
    gate.write_text("")
    waits = (
        "#!/bin/sh\n"
        f'case " $* " in */applied/*) : > /fstune/{met.name}\n'
        f"    while [ -e /fstune/{gate.name} ]; do sleep 0.05; done; exit 1 ;;\n"
        "esac\n"
        'exec /bin/mkdir "$@"\n'
    )
    try:
        with standing_in(node, "mkdir", waits), applying(lab) as process:
            wait_for(met.exists, "the decision")
            listing = ["sh", "-c", "ls -d /var/lib/fstune-restore/applied/*/cache_manager"]
            wait_for(lambda: lab.clients[0].run(listing).status == 0, "the other client", 0.2)
            process.kill()
            process.wait()
            gate.unlink()
    finally:
        gate.unlink(missing_ok=True)
        met.unlink(missing_ok=True)
    assert newest(lab).state is ApplicationState.COMMITTING
    assert is_new(lab)
    yield


def test_an_interrupted_commit_is_finished(lab: Lab) -> None:
    with killed_at_commit(lab):
        settled = lab.fstune("apply", newest(lab).id, "--yes")
        assert settled.returncode == 0, settled.stdout + settled.stderr
        assert "is in force" in settled.stdout
        assert newest(lab).state is ApplicationState.APPLIED
        assert is_new(lab)
        back = lab.fstune("rollback", "last", "--yes")
        assert back.returncode == 0, back.stdout + back.stderr
    assert newest(lab).state is ApplicationState.ROLLED_BACK
    lab.restore()  # a watch takes a moment to end


def test_a_commit_after_which_a_host_restored_itself_is_undone_everywhere(lab: Lab) -> None:
    with killed_at_commit(lab):
        hear_nothing(lab)
        other = lab.clients[1].name
        wait_for(lambda: lab.programs()[other] == lab.original[other], "the host itself", 0.2)
        settled = lab.fstune("rollback", "last", "--yes")
        assert settled.returncode == 0, settled.stdout + settled.stderr
    assert newest(lab).state is ApplicationState.FAILED
    lab.restore()  # a watch takes a moment to end
