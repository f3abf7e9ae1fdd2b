"""Files are put in place completely, and never replace another one, on any file system."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from tuner.errors import ConflictError, StoreError
from tuner.new_file import new_file, prepared_files, put_in_place


@pytest.fixture(params=[None, errno.EXDEV, errno.EPERM])
def links(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make hard links work, fail between directories, or fail always."""
    if request.param is not None:

        def refused(*_: object, **__: object) -> None:
            raise OSError(request.param, os.strerror(request.param))

        monkeypatch.setattr("os.link", refused)


@pytest.mark.usefixtures("links")
def test_files_are_put_in_place(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("before", encoding="utf-8")
    with prepared_files({"new": "one\n", "old": "two\n"}, tmp_path) as place:
        put_in_place(place, {"new": False, "old": True}, tmp_path)
    contents = {file.name: file.read_text(encoding="utf-8") for file in tmp_path.iterdir()}
    assert contents == {"new": "one\n", "old": "two\n"}


@pytest.mark.usefixtures("links")
def test_a_file_created_meanwhile_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "mine"
    file.write_text("mine", encoding="utf-8")
    monkeypatch.setattr("os.path.lexists", lambda _: False)
    with (
        prepared_files({"mine": "other"}, tmp_path) as place,
        pytest.raises(ConflictError, match="mine exists"),
    ):
        put_in_place(place, {"mine": False}, tmp_path)
    with pytest.raises(ConflictError, match="mine exists"), new_file(file) as output:
        output.write(b"other")
    assert file.read_text(encoding="utf-8") == "mine"


@pytest.mark.usefixtures("links")
def test_a_new_file_is_complete_or_missing(tmp_path: Path) -> None:
    with new_file(tmp_path / "new") as output:
        output.write(b"all of it")
    assert (tmp_path / "new").read_bytes() == b"all of it"
    with pytest.raises(RuntimeError), new_file(tmp_path / "other") as output:
        raise RuntimeError
    assert [file.name for file in tmp_path.iterdir()] == ["new"]


def test_an_error_of_the_body_is_not_reported_as_one_of_writing(tmp_path: Path) -> None:
    with pytest.raises(ConnectionError), prepared_files({"a": ""}, tmp_path):
        raise ConnectionError("the server went away")
    assert not list(tmp_path.iterdir())
    with pytest.raises(StoreError, match="cannot be written"), prepared_files({}, tmp_path / "no"):
        pass
