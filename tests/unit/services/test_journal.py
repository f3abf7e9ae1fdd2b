"""The directories of restore journals."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.hosts.place import Place, put_first
from tuner.hosts.hold import has_journals
from tuner.hosts.local import LocalConnector
from tuner.hosts.restore_all import restore_all
from tuner.services.journal import Journal, kept_names

#: In place of rm: removes one file of a directory and nothing else of it.
REMOVES_ONE = """
for directory; do
    for file in "$directory"/*; do
        [ ! -f "$file" ] || exec /bin/rm "$file"
    done
done
exec /bin/rm "$@"
"""


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


@pytest.mark.parametrize("by", ["script", "part"])
def test_a_journal_that_is_done_with_goes_all_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    """A host may lose power while it is removed, or the connection to it may break."""
    place = Place(tmp_path / "fstune")
    place.directory.mkdir(mode=0o700)
    path = place.journal()
    host, directory = LocalConnector(), str(place.directory)
    journal = Journal(host, str(path), "tuner.services.openafs", "fileserver-restore.sh")
    with monkeypatch.context() as patch:
        put_first(tmp_path, patch, "rm", REMOVES_ONE)
        _ = restore_all(host, directory) if by == "script" else journal.restore()
    assert place.proof == ["part"]
    assert journal.read("commands") is None
    assert not has_journals(host, directory)
    place.journal()
    assert journal.read("commands") == ("a", "b")
    assert restore_all(host, directory) == ["part on localhost restored"]
    assert list((place.directory / "restore").iterdir()) == []
