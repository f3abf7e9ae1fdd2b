"""Watches that cannot restore their host at once. The scripts really run, on this machine."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from tests.unit.hosts.place import PROVES, THEIRS, Place, put_first
from tests.waiting import wait_for
from tuner.errors import TestbedError
from tuner.hosts.lease import HostLease
from tuner.hosts.local import LocalConnector
from tuner.services.restoring import restore

pytestmark = pytest.mark.slow


@pytest.fixture
def pauses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file with the lengths of all pauses in scripts, which are really short."""
    path, real = tmp_path / "pauses", shutil.which("sleep")
    put_first(tmp_path, monkeypatch, "sleep", f'echo "$1" >> {path}\nexec {real} 0.005\n')
    return path


def test_a_watch_never_gives_up(place: Place, pauses: Path) -> None:
    """What prevents a restore, such as somebody's shell in the files, may go away much later."""
    place.take()
    place.journal(f"echo x >> ../../tries; [ -e ../../free ] || exit 1; {PROVES}")
    tries, log = place.directory / "tries", place.directory / "watch.log"
    place.expire()
    wait_for(lambda: tries.exists() and len(tries.read_text().split()) >= 13, "more tries")
    assert place.watches() != []
    (place.directory / "free").touch()
    wait_for(lambda: place.watches() == [], "its end")
    assert place.proof == ["part"]
    assert not (place.directory / "lease.expired").exists()
    assert "part restored" in log.read_text()
    # After ten tries, a try every ten minutes.
    assert pauses.read_text().split().count("30") == 9 + 20 * (len(tries.read_text().split()) - 10)


def test_a_host_whose_watch_is_slow_to_start_has_only_one(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first heartbeat follows at once."""
    script = '[ "$*" != watch.sh ] || sleep 0.5\nexec /bin/sh "$@"\n'
    put_first(tmp_path, monkeypatch, "sh", script)
    place.take().beat()
    recorded = (place.directory / "watch.pid").read_text()
    place.await_watch()
    assert (place.directory / "watch.pid").read_text() == recorded


def test_a_later_watch_goes_on_with_a_restore_that_failed(place: Place) -> None:
    place.take()
    place.journal("exit 1\n")
    log = place.directory / "watch.log"
    place.expire()
    wait_for(lambda: log.read_text().count("not restored") == 1, "the first watch")
    (place.directory / "after_s").write_text("1\n")
    subprocess.run(["sh", place.directory / "watch.sh", "start"], check=True)
    wait_for(lambda: log.read_text().count("not restored") == 2, "the later one")
    for pid in place.watches():
        os.kill(pid, signal.SIGKILL)


def test_a_watch_that_tries_again_ends_soon_after_a_restore_by_hand(
    place: Place, pauses: Path
) -> None:
    place.take()
    place.journal(f"[ -e ../../free ] || exit 1; {PROVES}")
    place.expire()
    wait_for((place.directory / "lease.expired").exists, "the watch")
    (place.directory / "free").touch()
    list(restore([LocalConnector()], str(place.directory)))
    wait_for(lambda: place.watches() == [], "its end")
    assert place.proof == ["part"]
    place.take(THEIRS)


def test_a_host_that_could_not_be_restored_by_hand_restores_itself_later(place: Place) -> None:
    place.take(after_s=5.0)
    place.journal(f"[ -e ../../free ] || exit 1; {PROVES}")
    with pytest.raises(TestbedError, match="not restored: part"):
        list(restore([LocalConnector()], str(place.directory)))
    assert not (place.directory / "lease").exists()
    (place.directory / "free").touch()
    wait_for(lambda: place.watches() == [], "its end")
    assert place.proof == ["part"]
    assert not (place.directory / "lease.expired").exists()


def test_a_process_that_dies_while_it_takes_a_host_over_leaves_it_to_the_watch(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.take(after_s=5.0)
    place.journal()
    make = HostLease._make
    results: list[bool] = []

    def dying(lease: HostLease) -> bool:
        if results:
            raise KeyboardInterrupt
        results.append(make(lease))
        return results[0]

    monkeypatch.setattr(HostLease, "_make", dying)
    with pytest.raises(KeyboardInterrupt):
        place.take(after_s=5.0)
    assert results == [False]
    assert not (place.directory / "lease").exists()
    wait_for(lambda: place.watches() == [], "its end")
    assert place.proof == ["part"]
