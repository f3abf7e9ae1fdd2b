"""A hold on a host is exclusive, and the host restores itself when its heartbeats stop."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from deploy.cell import Cell
from tests.integration.conftest import attach_fileserver, connect, process_in, suspend
from tests.waiting import wait_for
from tuner.errors import ConflictError, TestbedError
from tuner.hosts import hold as holding
from tuner.hosts.connector import CommandFailed, check, check_change
from tuner.hosts.heartbeats import Heartbeats
from tuner.hosts.hold import Hold
from tuner.hosts.lease import Owner
from tuner.hosts.restore_all import restore_all
from tuner.services.journal import Journal

pytestmark = pytest.mark.cell

OURS, THEIRS = Owner("campaign-1", "here"), Owner("campaign-2", "there")


@pytest.fixture
def directory(cell: Cell) -> Iterator[str]:
    """A separate directory on the server's node; its watches end with it."""
    path = f"/fstune/hold-{time.monotonic_ns()}"
    yield path
    host = connect(cell.server)
    host.run(["rm", "--recursive", "--force", f"{path}/lease", f"{path}/restore"])
    wait_for(lambda: watches(cell, path) == 0, "the watches' end")
    host.run(["rm", "--recursive", "--force", path])


def watches(cell: Cell, path: str) -> int:
    """The number of watches running in a directory."""
    count = 0
    for pid in cell.server.run(["pidof", "sh"]).stdout.decode().split():
        where = cell.server.run(["readlink", f"/proc/{pid}/cwd"]).stdout.decode().strip()
        count += where == path
    return count


def take(cell: Cell, path: str, owner: Owner = OURS, after_s: float = 60.0) -> Hold:
    return Hold.take(connect(cell.server), path, owner, after_s)


def test_only_one_campaign_holds_a_host(cell: Cell, directory: str) -> None:
    hold = take(cell, directory)
    with pytest.raises(ConflictError, match=r"server is in use by campaign campaign-1 on here"):
        take(cell, directory, THEIRS)
    assert hold.give_back() is None
    other = take(cell, directory, THEIRS)
    with pytest.raises(TestbedError, match="server has restored itself"):
        hold.beat()
    other.beat()
    assert other.give_back() is None


def test_the_same_campaign_takes_its_host_again(cell: Cell, directory: str) -> None:
    take(cell, directory)
    again = take(cell, directory)
    again.beat()
    wait_for(lambda: watches(cell, directory) == 1, "the first watch's end")
    assert again.give_back() is None


def journal(cell: Cell, directory: str, script: str) -> Journal:
    """A journal with a restore script of the test's own."""
    host = connect(cell.server)
    record = Journal(
        host, f"{directory}/restore/part", "tuner.services.openafs", "fileserver-restore.sh"
    )
    record.begin({"commands": ("a", "b")}, {"address": "192.0.2.1"})
    host.put(f"{directory}/restore/part/restore.sh", script.encode(), mode=0o700)
    return record


def test_a_host_without_heartbeats_restores_itself(cell: Cell, directory: str) -> None:
    hold = take(cell, directory)
    record = journal(cell, directory, 'echo restored | tee "${0%/*}/../../proof"\n')
    hold.connector.put(f"{directory}/lease/heartbeat", b"-100000\n")
    wait_for(lambda: record.host.ask(["test", "-e", f"{directory}/proof"]).status == 0, "the watch")
    wait_for(lambda: watches(cell, directory) == 0, "the watch's end")
    assert record.read("commands") is None
    with pytest.raises(TestbedError, match="has restored itself"):
        hold.beat()
    with pytest.raises(TestbedError, match="has restored itself"):
        hold.change(["true"])
    message = hold.give_back()
    assert message is not None
    assert "no heartbeat for 60 s" in message


def test_heartbeats_keep_it_from_doing_so(cell: Cell, directory: str) -> None:
    hold = take(cell, directory, after_s=20.0)
    record = journal(cell, directory, "exit 1\n")

    def heartbeat() -> str:
        return record.host.ask(["cat", f"{directory}/lease/heartbeat"]).stdout

    beats = Heartbeats([hold])
    for _ in range(2):
        before = heartbeat()
        wait_for(lambda before=before: heartbeat() != before, "a heartbeat")  # type: ignore[misc]
    beats.close()
    hold.beat()
    assert record.read("commands") == ("a", "b")
    check_change(record.host, ["rm", "--recursive", record.directory])
    assert hold.give_back() is None


def test_a_host_that_is_not_restored_is_not_given_back(cell: Cell, directory: str) -> None:
    hold = take(cell, directory)
    record = journal(cell, directory, "echo it does not work >&2; exit 1\n")
    with pytest.raises(CommandFailed, match="it does not work"):
        record.restore()
    message = hold.give_back()
    assert message is not None
    assert "it will try on its own in 60 s" in message
    hold.beat()
    check_change(record.host, ["rm", "--recursive", record.directory])
    assert hold.give_back() is None


def test_a_stale_lease_is_taken_over_after_its_host_was_restored(
    cell: Cell, directory: str
) -> None:
    first = take(cell, directory, after_s=30.0)
    record = journal(cell, directory, 'echo restored | tee "${0%/*}/../../proof"\n')
    first.connector.put(f"{directory}/lease/heartbeat", b"-100000\n")
    second = take(cell, directory, THEIRS, after_s=30.0)
    assert record.host.ask(["cat", f"{directory}/proof"]).stdout == "restored\n"
    assert record.read("commands") is None
    assert second.give_back() is None


def test_a_partly_written_journal_is_ignored(cell: Cell, directory: str) -> None:
    """Nothing had been changed yet, so there is nothing to restore."""
    host = connect(cell.server)
    record = Journal(
        host, f"{directory}/restore/part", "tuner.services.openafs", "fileserver-restore.sh"
    )
    record.begin({"commands": ("a",)}, {})
    check(host, ["mv", f"{directory}/restore/part", f"{directory}/restore/.part.new"])
    assert record.read("commands") is None
    assert restore_all(host, directory) == []
    record.begin({"commands": ("b",)}, {})
    assert record.read("commands") == ("b",)


@contextmanager
def small_disk(cell: Cell, path: str) -> Iterator[Callable[[], None]]:
    """A separate disk for a directory; yields a function that fills it."""

    def fill() -> None:
        cell.server.run(["dd", "if=/dev/zero", f"of={path}/filler"])

    cell.server.check(["mkdir", path])
    cell.server.check(["mount", "-t", "tmpfs", "-o", "size=256k,mode=700", "tmpfs", path])
    try:
        yield fill
    finally:
        cell.server.run(["rm", "--recursive", "--force", f"{path}/lease", f"{path}/restore"])
        wait_for(lambda: watches(cell, path) == 0, "the watches' end")
        cell.server.check(["umount", path])


def test_a_host_whose_disk_is_full_is_restored(
    cell: Cell, directory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    proof, lease = f"{directory}.proof", f"{directory}/lease"
    monkeypatch.setattr(holding, "TRUSTED_S", -1.0)
    with small_disk(cell, directory) as fill:
        hold = take(cell, directory)
        journal(cell, directory, f"echo restored | tee {proof}\n")
        fill()
        with pytest.raises(TestbedError, match=r"heartbeat\.sh: exit status 1: .*No space left"):
            hold.change(["touch", f"{directory}.changed"])
        assert cell.server.run(["test", "-e", f"{directory}.changed"]).status == 1
        # The lease cannot be moved away either, as on a disk that has become read-only.
        cell.server.check(["mount", "--bind", lease, lease])
        long_ago = ["sh", "-c", 'printf -- -99999 1<> "$1"', "sh", f"{lease}/heartbeat"]
        cell.server.check(long_ago)
        wait_for(lambda: watches(cell, directory) == 0, "the watch")
        cell.server.check(["umount", lease])
        assert cell.server.check(["cat", proof]) == "restored\n"
        assert restore_all(hold.connector, directory) == []
    cell.server.check(["rm", proof])


def test_without_room_for_a_journal_nothing_is_changed(cell: Cell, directory: str) -> None:
    with small_disk(cell, directory) as fill:
        hold = take(cell, directory)
        fill()
        record = Journal(
            hold, f"{directory}/restore/part", "tuner.services.openafs", "fileserver-restore.sh"
        )
        with pytest.raises(TestbedError, match="No space left on device"):
            record.begin({"commands": ("a", "b")}, {"address": "192.0.2.1"})
        cell.server.check(["rm", f"{directory}/filler"])
        assert record.read("commands") is None
        assert restore_all(hold.connector, directory) == []
        # Restoring a host takes the lease away, so it must be acquired again to continue.
        again = take(cell, directory)
        record = Journal(
            again, f"{directory}/restore/part", "tuner.services.openafs", "fileserver-restore.sh"
        )
        assert record.begin({"commands": ("a", "b")}, {"address": "192.0.2.1"})
        assert record.read("commands") == ("a", "b")


@pytest.mark.parametrize("hangs", [False, True])
def test_the_journal_alone_puts_the_fileserver_back(cell: Cell, hangs: bool) -> None:
    """As a watch or an administrator would, using only the files on the host."""
    server = attach_fileserver(cell)
    server.apply({"threads": 20})
    if hangs:
        hung = process_in(cell.server, "dafileserver")
        assert hung is not None
        suspend(hung)
    script = Path(server.place.directory) / "fileserver" / "restore.sh"
    message = cell.server.check(["sh", str(script)], timeout_s=60.0)
    assert message == "restarted as found\n"
    assert cell.server.check(["sh", str(script)]) == "left as found\n"
    process = process_in(cell.server, "dafileserver")
    assert process is not None
    command = Path(f"/proc/{process.pid}/cmdline").read_bytes().split(b"\0")[:-1]
    assert [word.decode() for word in command] == server.original[0].split()
    server.running = ()
    assert "left as found" in server.restore()
