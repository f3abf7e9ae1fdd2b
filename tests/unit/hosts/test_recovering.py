"""Hosts that a run has left changed are restored, unless somebody else uses them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.hosts.place import OURS, THEIRS, Place
from tests.waiting import wait_for
from tuner.errors import TestbedError
from tuner.hosts.connector import CommandResult
from tuner.hosts.local import LocalConnector
from tuner.services.restoring import recover, restore

pytestmark = pytest.mark.slow


class Away(LocalConnector):
    """A host that does not answer."""

    def ask(self, *_: object, **__: object) -> CommandResult:
        raise TestbedError("root@fs9: no route to host")


def recovered(place: Place, *more: LocalConnector) -> list[str]:
    return recover([*more, LocalConnector()], str(place.directory), OURS, 60.0)


def left(place: Place) -> bool:
    return any((place.directory / name).exists() for name in ("lease", "restore/part"))


def reboot(place: Place) -> None:
    """Nothing of before the reboot runs; the files are still there."""
    place.kill_watch()
    (place.directory / "lease" / "boot").write_text("another\n")


@pytest.mark.parametrize("rebooted", [False, True])
def test_a_host_that_the_campaign_has_left_changed(place: Place, rebooted: bool) -> None:
    place.take()
    place.journal()
    if rebooted:
        reboot(place)
    assert recovered(place) == ["part on localhost restored"]
    assert place.proof == ["part"]
    assert not left(place)
    assert recovered(place) == []
    wait_for(lambda: place.watches() == [], "the end of the watch")


def test_a_host_in_use_by_another_campaign_is_left_alone(place: Place) -> None:
    hold = place.take(THEIRS)
    place.journal()
    with pytest.raises(TestbedError, match="localhost is in use by campaign campaign-2 on there"):
        recovered(place)
    assert place.proof == []
    hold.change(["true"])


def test_a_host_that_another_campaign_has_left_changed_before_a_reboot(place: Place) -> None:
    place.take(THEIRS)
    place.journal()
    reboot(place)
    assert recovered(place) == ["localhost: restored"]
    assert place.proof == ["part"]
    assert not left(place)


def test_nothing_is_changed_on_a_host_that_was_restored(place: Place) -> None:
    assert recovered(place) == []
    assert not place.directory.exists()
    place.take()
    lease = place.directory / "lease" / "owner"
    before = lease.read_text()
    assert recovered(place) == []
    assert lease.read_text() == before


def test_the_others_are_restored_if_one_is_away(place: Place) -> None:
    place.take()
    place.journal()
    with pytest.raises(TestbedError, match="no route to host; part on localhost restored"):
        recovered(place, Away())
    assert not left(place)


def test_a_host_that_cannot_be_restored_goes_on_trying(place: Place, tmp_path: Path) -> None:
    place.take()
    place.journal(f"[ -e {tmp_path}/free ] || {{ echo in use; exit 1; }}\necho restored\n")
    reboot(place)
    with pytest.raises(TestbedError, match="not restored: part: in use"):
        recover([LocalConnector()], str(place.directory), OURS, 3.0)
    (tmp_path / "free").touch()
    wait_for(lambda: not left(place), "the watch")


def test_runs_of_the_campaign_are_ended_first(place: Place, tmp_path: Path) -> None:
    """They keep a client in use."""
    place.take()
    place.journal(f"[ -e {tmp_path}/ended ] || {{ echo in use; exit 1; }}\necho restored\n")
    program = "import pathlib, sys; pathlib.Path(sys.path[0], 'words').write_text(str(sys.argv))\n"
    program += f"pathlib.Path({str(tmp_path / 'ended')!r}).touch()\n"
    (place.directory / "end_runs.py").write_text(program)
    assert recovered(place) == ["part on localhost restored"]
    words = (place.directory / "words").read_text()
    assert f"'{place.directory}/workloads.pyz', 'campaign-1'" in words


@pytest.mark.parametrize("name", ["lease", "lease.expired"])
def test_runs_of_the_campaign_are_ended_before_a_restore_by_hand(place: Place, name: str) -> None:
    place.take()
    place.kill_watch()
    place.journal("[ -e ../../ended ] || { echo in use; exit 1; }\necho restored\n")
    (place.directory / "lease").rename(place.directory / name)
    program = "import pathlib, sys; pathlib.Path(sys.path[0], 'ended').write_text(sys.argv[2])\n"
    (place.directory / "end_runs.py").write_text(program)
    sentences = list(restore([LocalConnector()], str(place.directory)))
    assert sentences == ["part on localhost restored"]
    assert (place.directory / "ended").read_text() == "campaign-1"


@pytest.mark.parametrize("name", ["lease", "lease.expired"])
def test_a_restore_by_hand_names_what_workloads_may_have_left(place: Place, name: str) -> None:
    def by_hand() -> list[str]:
        return list(restore([LocalConnector()], str(place.directory), "/afs/bench"))

    place.take()
    place.kill_watch()
    (place.directory / "lease").rename(place.directory / name)
    start = "localhost: /afs/bench: may still have files of workloads that were cut off: look for "
    nothing = "localhost: nothing to restore"
    assert by_hand() == [nothing, f"{start}fstune-campaign-1* there"]
    assert by_hand() == [nothing]
    # An earlier restore that failed has ended the hold.
    place.journal()
    assert by_hand() == ["part on localhost restored", f"{start}fstune-* there"]


def test_what_workloads_may_have_left_is_named_although_a_host_is_not_restored(
    place: Place,
) -> None:
    place.take()
    place.kill_watch()
    place.journal("echo in use; exit 1\n")
    sentences: list[str] = []
    with pytest.raises(TestbedError, match="in use"):
        sentences.extend(restore([LocalConnector()], str(place.directory), "/afs/bench"))
    assert [sentence.split(": ")[-1] for sentence in sentences] == [
        "look for fstune-campaign-1* there"
    ]
