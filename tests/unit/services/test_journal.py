"""The directories of restore journals."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.hosts.place import Place
from tuner.hosts.local import LocalConnector
from tuner.hosts.put_back import restore_all
from tuner.services.journal import Journal, kept_names


@pytest.fixture(autouse=True)
def _open_umask() -> Iterator[None]:
    """As root has it on hosts where every user has a group of the same name."""
    before = os.umask(0o002)
    yield
    os.umask(before)


def test_journals_are_kept_where_no_group_can_write(tmp_path: Path) -> None:
    place = Place(tmp_path / "fstune")
    place.directory.mkdir(mode=0o700)
    directory = place.journal()
    journal = Journal(
        LocalConnector(), str(directory), "tuner.services.openafs", "fileserver-restore.sh"
    )
    host = LocalConnector()
    assert kept_names(host, str(place.directory)) == set()
    journal.keep("a1")
    assert kept_names(host, str(place.directory)) == {"a1"}
    modes = {
        str(path.relative_to(place.directory)): path.stat().st_mode & 0o777
        for path in place.directory.rglob("*")
        if path.is_dir()
    }
    assert modes == dict.fromkeys(("restore", "applied", "applied/a1", "applied/a1/part"), 0o700)
    journal.reopen("a1")
    assert kept_names(host, str(place.directory)) == set()
    assert restore_all(LocalConnector(), str(place.directory)) == ["part on localhost restored"]
