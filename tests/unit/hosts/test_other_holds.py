"""Holds in another restore directory of the same host."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.hosts.place import Place
from tests.waiting import wait_for
from tuner.errors import InUseError
from tuner.hosts.local import LocalConnector
from tuner.hosts.other_holds import check_no_others, other_holds

pytestmark = pytest.mark.slow


def of(place: Place, directory: Path) -> list[str]:
    """What is said of this place: other tests may use others at the same time."""
    return [
        each
        for each in other_holds(LocalConnector(), str(directory))
        if str(place.directory) in each
    ]


def test_a_hold_in_another_directory_is_found_until_it_ends(place: Place, tmp_path: Path) -> None:
    other = tmp_path / "another"
    assert of(place, other) == []
    hold = place.take()
    place.await_watch()
    (sentence,) = of(place, other)
    assert sentence == (
        f"localhost is held by campaign-1 on here with restore.directory {place.directory}, and "
        "has not been restored from there: name that directory in the testbed file, or wait until "
        "the host has restored itself"
    )
    with pytest.raises(InUseError, match="is held"):
        check_no_others([LocalConnector()], str(other))
    assert of(place, place.directory) == []
    link = tmp_path / "link"
    link.symlink_to(place.directory)
    assert of(place, link) == []
    hold.give_back()
    assert of(place, other) == []


def test_a_host_without_a_lease_that_was_not_restored_is_found_too(place: Place) -> None:
    """Restoring it by hand has failed, say: its watch goes on trying."""
    place.take()
    place.journal()
    place.await_watch()
    (place.directory / "lease").rename(place.directory / "gone")
    (sentence,) = of(place, Path("/nowhere"))
    assert sentence.startswith(f"localhost is held with restore.directory {place.directory}, and")
    place.kill_watch()
    wait_for(lambda: of(place, Path("/nowhere")) == [], "the end of the watch")
