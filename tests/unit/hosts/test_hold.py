"""Holds in adverse conditions: dying watches, rebooting hosts, suspended controllers and concurrent
campaigns. The scripts really run, on this machine.
"""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.unit.hosts.place import PROVES, THEIRS, Place, put_first
from tests.waiting import wait_for
from tuner.errors import ConflictError, InUseError, TestbedError
from tuner.hosts import hold as holding
from tuner.hosts import lease as leases
from tuner.hosts.connector import CommandFailed, CommandResult
from tuner.hosts.hold import Hold
from tuner.hosts.local import LocalConnector
from tuner.hosts.restore_all import restore_all
from tuner.services.restoring import restore

pytestmark = pytest.mark.slow


def test_a_killed_watch_is_restarted_by_the_next_heartbeat(place: Place) -> None:
    hold = place.take()
    place.kill_watch()
    hold.beat()
    place.await_watch()
    hold.beat()
    place.await_watch()


def test_a_rebooted_host_has_a_watch_again_and_its_campaign_ends(place: Place) -> None:
    hold = place.take()
    place.kill_watch()
    (place.directory / "lease" / "boot").write_text("another start\n")
    with pytest.raises(TestbedError, match="localhost was restarted while it was in use"):
        hold.change(["touch", str(place.directory / "changed")])
    place.await_watch()
    assert not (place.directory / "changed").exists()
    with pytest.raises(ConflictError, match="in use by campaign campaign-1 on here"):
        place.take(THEIRS)
    hold.only_restore()
    hold.change(["touch", str(place.directory / "put-back")])
    assert hold.give_back() is None


def test_a_controller_that_wakes_up_too_late_changes_nothing_any_more(place: Place) -> None:
    """It was suspended, so it did not notice that its lease had expired."""
    hold = place.take()
    place.journal()
    place.expire()
    wait_for(lambda: place.proof == ["part"], "the watch")
    with pytest.raises(TestbedError, match="has restored itself"):
        hold.change(["touch", str(place.directory / "changed")])
    with pytest.raises(TestbedError, match="has restored itself"):
        hold.put(str(place.directory / "changed"), b"")
    hold.only_restore()
    with pytest.raises(TestbedError, match="has restored itself"):
        hold.change(["touch", str(place.directory / "changed")])
    assert not (place.directory / "changed").exists()


def test_a_hold_that_is_interrupted_while_it_is_taken_is_none(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(hold: Hold) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Hold, "beat", interrupted)
        with pytest.raises(KeyboardInterrupt):
            place.take()
    assert not (place.directory / "lease").exists()
    place.take(THEIRS).beat()


def test_changes_of_an_earlier_hold_keep_the_lease_of_one_that_is_interrupted(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its watch restores the host."""

    def interrupted(hold: Hold) -> None:
        raise KeyboardInterrupt

    place.take()
    place.journal()
    with monkeypatch.context() as patch:
        patch.setattr(Hold, "beat", interrupted)
        with pytest.raises(KeyboardInterrupt):
            place.take()
    assert (place.directory / "lease").exists()
    place.await_watch()


def test_a_holder_may_be_silent_as_long_as_it_has_declared(place: Place) -> None:
    """Not only as long as whoever comes next would be."""
    hold = place.take(after_s=1800.0)
    up_s = float(Path("/proc/uptime").read_text().split()[0])
    (place.directory / "lease" / "heartbeat").write_text(f"{up_s - 300.0:.0f}\n")
    with pytest.raises(InUseError, match="in use by campaign campaign-1 on here, last seen 30"):
        place.take(THEIRS, after_s=60.0)
    hold.beat()


def test_a_lease_from_before_a_container_was_restarted_is_taken_over(place: Place) -> None:
    """Its kernel has not been: the time since boot says so alone."""
    place.take()
    up_s = float(Path("/proc/uptime").read_text().split()[0])
    (place.directory / "lease" / "heartbeat").write_text(f"{up_s + 86400.0:.0f}\n")
    place.take(THEIRS).beat()


def test_a_process_that_hung_is_told_apart_from_its_successor(place: Place) -> None:
    """Both belong to the same campaign on the same machine."""
    first = place.take()
    path = place.journal()
    second = place.take()
    assert path.exists()  # the original state is still to be restored, by the second
    with pytest.raises(TestbedError, match="has restored itself"):
        first.change(["touch", str(place.directory / "changed")])
    second.beat()


def test_taking_a_host_that_is_restoring_itself_waits_for_that(place: Place) -> None:
    place.take()
    gate = place.directory / "gate"
    gate.touch()
    place.journal("touch ../../met; while [ -e ../../gate ]; do sleep 0.02; done; " + PROVES)
    place.expire()
    wait_for((place.directory / "met").exists, "the watch")
    with ThreadPoolExecutor(1) as pool:
        taking = pool.submit(place.take, THEIRS)
        time.sleep(0.2)
        assert not taking.done()
        gate.unlink()
        hold = taking.result(100.0)
    assert place.proof == ["part"]
    path = place.journal()
    place.await_watch()
    assert path.exists()  # the new campaign's journal, which the old watch leaves alone
    hold.beat()


def test_a_host_that_takes_long_to_put_itself_back_says_so(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "_EXPIRED_S", 0.0)
    place.take()
    place.journal("echo bos: no quorum >&2; exit 1\n")
    place.expire()
    log = place.directory / "watch.log"
    wait_for(lambda: "no quorum" in log.read_text(), "the watch")
    with pytest.raises(ConflictError, match=r"is restoring itself now.*no quorum"):
        place.take(THEIRS)
    place.kill_watch()


def test_a_restore_that_a_watch_left_unfinished_is_finished_by_the_next_hold(place: Place) -> None:
    """As after a reboot of the host while its watch was restoring it."""
    place.take()
    place.kill_watch()
    place.journal()
    (place.directory / "lease").rename(place.directory / "lease.expired")
    hold = place.take(THEIRS)
    assert place.proof == ["part"]
    assert not (place.directory / "lease.expired").exists()
    assert hold.give_back() is None


@pytest.mark.parametrize("heartbeat", ["", "rubbish\n", "-100000\n"])
def test_a_lease_with_an_unreadable_or_old_heartbeat_is_no_obstacle(
    place: Place, heartbeat: str
) -> None:
    place.take()
    place.journal()
    (place.directory / "lease" / "heartbeat").write_text(heartbeat)
    hold = place.take(THEIRS)
    assert place.proof == ["part"]
    hold.beat()


def test_a_lease_that_its_watch_ends_at_the_same_moment_is_no_obstacle(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.take()
    place.kill_watch()
    place.journal()
    lease, ask = place.directory / "lease", LocalConnector.ask

    def ending(connector: LocalConnector, argv: Sequence[str], **options: Any) -> CommandResult:
        if list(argv) == ["cat", str(lease / "owner")]:
            lease.rename(place.directory / "lease.expired")
        return ask(connector, argv, **options)

    monkeypatch.setattr(LocalConnector, "ask", ending)
    hold = place.take(THEIRS)
    assert place.proof == ["part"]
    hold.beat()


def test_a_lease_that_its_watch_has_just_ended_is_not_taken_before_the_restore(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The restore would end the new lease too."""
    place.take()
    place.kill_watch()
    place.journal()
    lease, change = place.directory / "lease", LocalConnector.change

    def ending(connector: LocalConnector, argv: Sequence[str], **options: Any) -> CommandResult:
        if argv[0] == "flock" and not place.proof:
            lease.rename(place.directory / "lease.expired")
        return change(connector, argv, **options)

    monkeypatch.setattr(LocalConnector, "change", ending)
    hold = place.take(THEIRS)
    assert place.proof == ["part"]
    assert not (place.directory / "lease.expired").exists()
    hold.beat()


def test_a_lease_without_an_owner_is_named(place: Place) -> None:
    place.take()
    owner = place.directory / "lease" / "owner"
    owner.unlink()
    with pytest.raises(TestbedError, match=r"cat .*lease/ow.*No such file"):
        place.take(THEIRS)


@pytest.mark.parametrize("heartbeat", ["", "rubbish\n"])
def test_a_damaged_heartbeat_does_not_end_the_watch(place: Place, heartbeat: str) -> None:
    place.take()
    place.journal()
    (place.directory / "lease" / "heartbeat").write_text(heartbeat)
    wait_for(lambda: place.proof == ["part"], "the watch")


def test_the_clock_may_be_set_to_anything(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_first(tmp_path, monkeypatch, "date", f"cat {tmp_path}/now\n")
    (tmp_path / "now").write_text("4102444800\n")
    hold = place.take()
    with pytest.raises(ConflictError, match="in use by campaign campaign-1 on here"):
        place.take(THEIRS)
    assert hold.give_back() is None
    place.take()
    (tmp_path / "now").write_text("0\n")
    place.journal()
    place.expire()
    wait_for(lambda: place.proof == ["part"], "the watch")
    wait_for(lambda: place.watches() == [], "its end")
    assert "0 no heartbeat for 60 s" in (place.directory / "watch.log").read_text()


def test_putting_back_twice_at_once_is_done_once(place: Place) -> None:
    place.directory.mkdir()
    place.journal(f"sleep 0.3; {PROVES}")
    host, directory = LocalConnector(), str(place.directory)
    with ThreadPoolExecutor(2) as pool:
        sentences = list(pool.map(lambda _: restore_all(host, directory), range(2)))
    assert sorted(sentences) == [[], ["part on localhost restored"]]
    assert place.proof == ["part"]
    assert restore_all(host, directory) == []


def test_processes_started_by_a_restore_do_not_block_the_next_one(place: Place) -> None:
    """A daemon that a restore starts must not keep the lock."""
    place.directory.mkdir()
    place.journal(f"setsid sleep 600 > /dev/null 2>&1 & echo $! > ../../daemon\n{PROVES}")
    host, directory = LocalConnector(), str(place.directory)
    restore_all(host, directory)
    try:
        assert restore_all(host, directory) == []
    finally:
        os.kill(int((place.directory / "daemon").read_text()), signal.SIGKILL)


def test_a_part_that_needs_another_is_restored_after_it(place: Place) -> None:
    """On one machine a client may depend on the fileserver there."""
    place.directory.mkdir()
    place.journal(f"grep -q fileserver ../../proof || exit 1; {PROVES}", "cache_manager")
    place.journal(PROVES, "fileserver")
    sentences = restore_all(LocalConnector(), str(place.directory))
    assert place.proof == ["fileserver", "cache_manager"]
    assert [sentence.split()[0] for sentence in sentences] == place.proof


def test_a_failed_restore_does_not_prevent_others(place: Place) -> None:
    place.directory.mkdir()
    bad = place.journal("echo it does not work >&2; exit 1\n", "a")
    place.journal(PROVES, "b")
    with pytest.raises(CommandFailed, match="not restored: a: it does not work"):
        restore_all(LocalConnector(), str(place.directory))
    assert place.proof == ["b"]
    assert bad.exists()


def test_a_host_from_which_all_our_files_were_removed_is_not_changed_any_more(place: Place) -> None:
    hold = place.take()
    path = place.journal()
    shutil.rmtree(place.directory)
    with pytest.raises(TestbedError, match=r"localhost: sh .*: exit status"):
        hold.change(["mkdir", str(place.directory.with_name("changed"))])
    assert not place.directory.with_name("changed").exists()
    hold.only_restore()
    hold.change(["mkdir", "--parents", str(path)])
    assert hold.give_back() is None


@pytest.mark.parametrize("parent", ["visible", ".hidden"])
def test_an_open_journal_keeps_the_lease_wherever_it_is(place: Place, parent: str) -> None:
    place.directory = place.directory.parent / parent / ".fstune"
    hold = place.take()
    assert hold.give_back() is None
    hold = place.take()
    path = place.journal()
    message = hold.give_back()
    assert message is not None
    assert "has not been restored" in message
    assert (place.directory / "lease").exists()
    path.rename(path.with_name(".part"))  # one that was never completed
    assert hold.give_back() is None


def test_journals_that_cannot_be_listed_keep_the_lease(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold = place.take()
    (place.directory / "restore").mkdir()
    monkeypatch.setattr(holding, "_JOURNALS", ("-no-such-test",))
    message = hold.give_back()
    assert message is not None
    assert "has not been restored" in message
    monkeypatch.undo()
    assert hold.give_back() is None


def test_a_lost_lease_is_noticed_at_once(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """However recently the host has confirmed the lease."""
    monkeypatch.setattr(holding, "TRUSTED_S", 100.0)
    hold = place.take()
    hold.change(["true"])
    shutil.rmtree(place.directory / "lease")
    for _ in range(2):  # once refused, always refused
        with pytest.raises(TestbedError, match="has restored itself"):
            hold.change(["touch", str(place.directory / "late")])
    with pytest.raises(TestbedError, match="has restored itself"):
        hold.put(str(place.directory / "late"), b"")
    assert not (place.directory / "late").exists()


def test_a_workload_does_not_start_without_the_lease(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(holding, "TRUSTED_S", 100.0)
    hold = place.take()
    assert hold.run_long(["echo", "ran"], run_id="r1").stdout == "ran\n"
    talk = hold.converse(["echo", "ran"])
    assert talk.listen() is None
    assert talk.end().stdout == "ran\n"
    shutil.rmtree(place.directory / "lease")
    talk = hold.converse(["touch", str(place.directory / "late")])
    while talk.listen() is not None:
        pass
    with pytest.raises(TestbedError, match="has restored itself"):
        talk.end()
    with pytest.raises(TestbedError, match="has restored itself"):
        hold.run_long(["touch", str(place.directory / "late")], run_id="r2")
    assert not (place.directory / "late").exists()


def test_restoring_a_host_by_hand_ends_its_lease(place: Place) -> None:
    hold = place.take()
    place.journal()
    restored = list(restore([LocalConnector()], str(place.directory)))
    assert restored == ["part on localhost restored"]
    with pytest.raises(TestbedError, match="has restored itself"):
        hold.beat()
    assert list(restore([LocalConnector()], str(place.directory))) == [
        "localhost: nothing to restore"
    ]
