"""Servers and clients of a real cell are as before after a change, whatever happened meanwhile."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from deploy.cell import Cell
from deploy.cell.client import VOLUME_PATH
from deploy.cell.network import SERVER_ADDRESS
from deploy.cell.node import SHARED
from tests.integration.conftest import (
    attach_cache_manager,
    attach_fileserver,
    environment,
    process_in,
)
from tests.integration.targets import commands_now, silent
from tuner.errors import TestbedError
from tuner.services.openafs import parse
from tuner.services.openafs.bosserver import is_restricted
from tuner.services.openafs.cache_manager import CacheManager
from tuner.services.openafs.cell import RESTORE
from tuner.services.target import Target

pytestmark = pytest.mark.cell

#: A bos whose first "create" finds no bosserver: it has crashed, and is started again 3 s later.
CRASHING_BOS = """#!/bin/sh
if [ "$1" = create ]; then
    rm "$0"
    starter=$(cut -d ' ' -f 4 "/proc/$(pidof bosserver)/stat")
    kill -STOP "$starter"
    pkill -SEGV -x bosserver
    { sleep 3; kill -CONT "$starter"; } > /dev/null 2>&1 &
fi
PATH=${PATH#*:} exec bos "$@"
"""


def test_a_run_that_was_cut_off_is_undone_by_the_next(unchanged: None, cell: Cell) -> None:
    first = attach_fileserver(cell)
    initial = dict(first.initial)
    first.apply({"threads": 20})
    journal = cell.server.shared / "restore" / "fileserver"
    for path in (journal, *journal.iterdir()):
        assert path.stat().st_mode & 0o077 == 0
    # The state after a run that ended between "bos delete" and "bos create".
    first._stop()
    first._bos("delete")
    second = attach_fileserver(cell)
    assert (second.original, dict(second.initial)) == (first.original, initial)
    assert "fileserver on server restarted as found" in second.restore()
    assert not journal.exists()
    assert attach_fileserver(cell).running == first.original
    assert attach_fileserver(cell).restore().startswith("fileserver on server left as found")
    second.read_back(initial)


def test_a_damaged_journal_is_never_guessed_at(cell: Cell) -> None:
    journal = cell.server.shared / "restore" / "fileserver"
    journal.mkdir(parents=True)
    for text in (None, "", "without its end"):
        if text is not None:
            (journal / "commands").write_text(text)
        with pytest.raises(TestbedError, match=r"journal .* is damaged"):
            attach_fileserver(cell)
    shutil.rmtree(journal)


@pytest.mark.parametrize("name", ["commands", "sums", "restore.sh"])
def test_a_damaged_journal_deletes_no_instance(unchanged: None, cell: Cell, name: str) -> None:
    server = attach_fileserver(cell)
    server.apply({"threads": 20})
    path = cell.server.shared / "restore" / "fileserver" / name
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(TestbedError, match=r"restore\.sh: exit status"):
        server.restore()
    assert commands_now(cell) == server.running
    path.write_bytes(whole)
    assert "restarted as found" in server.restore()


def test_somebody_elses_change_of_the_instance_is_not_overwritten(
    unchanged: None, cell: Cell
) -> None:
    """That is, not by the next arm; in the end the original is restored, and both are reported."""
    server = attach_fileserver(cell)
    server.apply({"threads": 20})
    theirs = (f"{server.original[0]} -p 33", *server.original[1:])
    server._stop()
    server._bos("delete")
    server._bos("create", "dafs", *theirs)
    with pytest.raises(TestbedError, match=r"somebody else has changed .* -p 33; nothing was"):
        server.apply({"threads": 21})
    assert commands_now(cell) == theirs
    again = attach_fileserver(cell)  # as when the campaign is resumed
    with pytest.raises(TestbedError, match="somebody else has changed"):
        again.apply({"threads": 21})
    assert re.search(
        r"restarted as found; somebody else had created it: .* -p 33;", again.restore()
    )


def test_a_notifier_is_kept(unchanged: None, cell: Cell) -> None:
    def notifier() -> tuple[str, ...]:
        argv = ["bos", "status", SERVER_ADDRESS, "dafs", "-long", "-localauth"]
        return parse.bos_status(cell.server.check(argv)).notifier

    def create(first: str, *options: str) -> None:
        """Create the instance anew, as an administrator does, and wait until it serves."""
        as_found._stop()
        as_found._bos("delete")
        as_found._bos("create", "dafs", first, *as_found.original[1:], *options)
        anew = attach_fileserver(cell)
        anew.read_back(anew.initial)

    as_found = attach_fileserver(cell)
    create(f"{as_found.original[0]} -p 19", "-notifier", "/bin/true")
    assert notifier() == ("/bin/true",)
    server = attach_fileserver(cell)
    server.apply({"threads": 20})
    assert notifier() == ("/bin/true",)
    assert "restarted as found" in server.restore()
    assert (notifier(), "-p 19" in commands_now(cell)[0]) == (("/bin/true",), True)
    assert attach_fileserver(cell).restore().startswith("fileserver on server left as found")
    create(as_found.original[0])
    assert notifier() == ()


def test_a_server_of_a_restricted_bosserver_is_started_again(unchanged: None, cell: Cell) -> None:
    server = attach_fileserver(cell)
    cell.server.check(["bos", "setrestricted", SERVER_ADDRESS, "1", "-localauth"])
    try:
        assert is_restricted(server.host, SERVER_ADDRESS)
        with pytest.raises(TestbedError, match="not authorized"):
            server.apply({"threads": 20})
        assert attach_fileserver(cell).running == ()
        assert "restarted as found" in server.restore()
    finally:
        # As the finding says.
        cell.server.check(["pkill", "-FPE", "bosserver"])
        cell.server.check(["bos", "setrestricted", SERVER_ADDRESS, "0", "-localauth"])
    assert not is_restricted(server.host, SERVER_ADDRESS)
    cell.clients[0].check(["ls", VOLUME_PATH])


def test_a_journal_that_somebody_removed_is_rewritten_for_restoring(
    unchanged: None, cell: Cell
) -> None:
    server, manager = attach_fileserver(cell), attach_cache_manager(cell)
    server.apply({"threads": 20})
    manager.apply({"blocks": 150000})
    for node in cell.nodes:
        shutil.rmtree(node.shared / "restore")
    assert "restarted as found" in server.restore()
    assert "mounted again as found" in manager.restore()
    assert commands_now(cell) == server.original


def test_a_client_is_restored_although_nothing_can_be_written(
    cell: Cell, cache_manager: CacheManager
) -> None:
    """As on a machine whose disk has failed and become read-only."""
    client = cell.clients[0]
    cache_manager.apply({"blocks": 150000})
    client.check(["mount", "--bind", RESTORE, RESTORE])
    try:
        client.check(["mount", "--options", "remount,bind,ro", RESTORE])
        command = ["sh", f"{RESTORE}/cache_manager/restore.sh"]
        assert client.check(command) == "mounted again as found\n"
        assert client.check(command) == "left as found\n"
    finally:
        client.check(["umount", "--lazy", RESTORE])


def test_a_bosserver_that_crashes_before_the_instance_is_created_again(
    unchanged: None, cell: Cell
) -> None:
    """The script creates it as soon as bosserver is back, since nobody else would for some time."""
    server = attach_fileserver(cell)
    server.apply({"threads": 20})
    programs = cell.server.shared / "programs"
    programs.mkdir()
    (programs / "bos").write_text(CRASHING_BOS)
    (programs / "bos").chmod(0o755)
    script = f"PATH={SHARED}/programs:$PATH; exec sh {RESTORE}/fileserver/restore.sh"
    try:
        assert cell.server.check(["sh", "-c", script], timeout_s=120.0) == "restarted as found\n"
        assert not (programs / "bos").exists()
    finally:
        shutil.rmtree(programs)
    assert commands_now(cell) == server.original
    assert "left as found" in server.restore()


def test_options_that_a_full_disk_keeps_in_memory_do_not_count(cell: Cell) -> None:
    """The next start of bosserver would use those in BosConfig."""
    server = attach_fileserver(cell)
    server.apply({"threads": 20})
    config, fill = "/etc/openafs/BosConfig", "/etc/openafs/fill"
    copy = "cp -a /etc/openafs/. /tmp/etc && mount -t tmpfs -o size=128k none /etc/openafs"
    cell.server.check(["sh", "-c", f"mkdir /tmp/etc && {copy} && cp -a /tmp/etc/. /etc/openafs"])
    try:
        cell.server.run(["dd", "if=/dev/zero", f"of={fill}", "bs=1k"])
        with pytest.raises(TestbedError, match=f"has not written the options into {config}"):
            server.apply({"threads": 30})
        with pytest.raises(TestbedError, match=r"BosConfig does not have these options .*\(-1\)"):
            server.restore()
        assert commands_now(cell) == server.original
        assert "-p 20" in cell.server.check(["cat", config])
        before = process_in(cell.server, "dafileserver")
        cell.server.check(["rm", fill])
        assert "left as found" in server.restore()
        assert process_in(cell.server, "dafileserver") == before
        assert f"parm {server.original[0]}\n" in cell.server.check(["cat", config])
        cell.server.check(["cp", config, "/tmp/etc"])
    finally:
        cell.server.check(["umount", "/etc/openafs"])
        cell.server.check(["cp", "/tmp/etc/BosConfig", "/etc/openafs"])
        cell.server.check(["rm", "-r", "/tmp/etc"])
    assert attach_fileserver(cell).restore().startswith("fileserver on server left as found")


@pytest.mark.parametrize("part", ["fileserver", "cache_manager"])
@pytest.mark.parametrize("delay_s", [0.0, 0.05, 0.2])
def test_an_interruption_at_any_moment_can_be_undone(
    unchanged: None, state: Path, root: Path, cell: Cell, part: str, delay_s: float
) -> None:
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.integration.churn", str(state), cell.spec.name, part],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=root,
        env=environment(state),
    )
    assert child.stdout is not None
    with child:
        for _ in range(2):
            assert child.stdout.readline() == "changing\n"
        time.sleep(delay_s)
        child.send_signal(signal.SIGINT)
        child.stdout.read()
        assert child.wait() != 0
    server, manager = attach_fileserver(cell), attach_cache_manager(cell)
    target = Target({"fileserver": server, "cache_manager": manager})
    target.restore(silent)
    for node in cell.nodes:
        assert list((node.shared / "restore").glob("*/restore.sh")) == []
    target.apply(target.baseline, silent)
    cell.clients[0].check(["ls", VOLUME_PATH])
    target.restore(silent)
