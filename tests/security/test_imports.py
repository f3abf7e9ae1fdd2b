"""Attack: a forged export. Imported records are trusted by everything that reads them later."""

from __future__ import annotations

import gzip
import json
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.postgresql import Server
from tests.unit.conftest import postgresql, reused, template
from tests.unit.store.test_archive import filled, rewritten
from tuner.errors import SpecError
from tuner.hosts.hold import Hold
from tuner.hosts.lease import Owner
from tuner.hosts.local import LocalConnector
from tuner.measure.driver import ClientEngine
from tuner.measure.workload import load_workload
from tuner.store import Store
from tuner.store.archive import export_campaign, import_campaign

__all__ = ["postgresql", "reused", "template"]

UP = "x/../../.."


@pytest.fixture
def file(tmp_path: Path) -> Path:
    with Store.open(tmp_path / "theirs") as store:
        path = tmp_path / "campaign.gz"
        export_campaign(store, filled(store), path)
        return path


def refused(tmp_path: Path, file: Path) -> str:
    with Store.open(tmp_path / "ours") as ours:
        with pytest.raises(SpecError) as met:
            import_campaign(ours, file)
        assert ours.campaigns() == []
    return str(met.value)


@pytest.mark.parametrize(
    "name",
    [UP, "../etc", "20261121-171312-gj4m/..", "20261121-171312-gj4m\n", "last", "", "-rf", "é" * 9],
)
def test_an_identifier_is_ours(tmp_path: Path, file: Path, name: str) -> None:
    def change(lines: list[Any]) -> None:
        lines[0]["campaign"] = name
        for table, row in lines[1:-1]:
            row["id" if table == "campaign" else "campaign"] = name

    assert "is not the identifier of a campaign" in refused(tmp_path, rewritten(file, change))


def test_an_invalid_identifier_in_the_database_reaches_no_path(tmp_path: Path) -> None:
    """As one that an earlier release has let into a database."""
    victim = tmp_path / "victim"
    victim.mkdir()
    directory = tmp_path / "a" / "restore-here"
    directory.mkdir(parents=True, mode=0o700)
    with pytest.raises(SpecError, match="letters, digits"):
        Hold.take(LocalConnector(), str(directory), Owner("x/../../../victim", "here"), 60.0)
    workload = load_workload("mixed-use")
    engine = ClientEngine(LocalConnector(), str(tmp_path), str(tmp_path), workload, "")
    for attack in (engine.remove, engine.end_runs, lambda run: engine.command("s", run, 1)):
        with pytest.raises(SpecError, match="letters, digits"):
            attack("../victim")
    assert victim.exists()


def nested() -> Any:
    document: Any = []
    for _ in range(300):
        document = [document]
    return document


#: Values that fstune never writes to a column of a table.
WRONG = [
    ("campaign", "created", "0001-01-01T00:00:00+00:00"),
    ("campaign", "updated", "9999-12-31T23:59:59-23:59"),
    ("campaign", "created", "2026-01-01T00:00:00"),
    ("campaign", "wall_s", "1e5"),
    ("campaign", "wall_s", 10**400),
    ("campaign", "seed", 2**64),
    ("campaign", "seed", -1),
    ("campaign", "name", "a\0b"),
    ("campaign", "name", "\ud800"),
    ("campaign", "name", "x" * 100_000),
    ("campaign", "spec", "[]"),
    ("campaign", "spec", '{"a": ' + "[" * 400 + "]" * 400 + "}"),
    ("campaign", "baseline", {"fileserver.threads": {"a": 1}}),
    ("campaign", "baseline", {"../x": 1}),
    ("measured_with", "document", nested()),
    ("trial", "flags", {"fileserver": "-p 4"}),
    ("trial", "flags", {"fileserver": [["-p"]]}),
    ("trial", "number", 2**31),
    ("trial", "number", True),
    ("block", "order", {"0": 1}),
    ("block", "order", ["1"]),
    ("block", "number", 1.0),
    ("measurement", "diagnostics", {"a": [1]}),
    ("measurement", "actions", "restart"),
    ("component", "operations", 2**63),
    ("event", "data", {"trial": {"a": 1}}),
    ("event", "data", [1]),
    ("event", "kind", "x" * 65),
    ("event", "kind", "\x1b[2J"),
    ("event", "at", "1999-12-31T00:00:00+00:00"),
    ("event", "message", 7),
    ("recommendation", "notes", [1]),
    ("recommendation", "ratio", "nan"),
    ("recommendation", "configuration", [["fileserver.threads", 1]]),
]


@pytest.mark.parametrize(("table", "column", "value"), WRONG)
def test_every_row_is_validated(
    tmp_path: Path, file: Path, table: str, column: str, value: object
) -> None:
    def change(lines: list[Any]) -> None:
        next(row for name, row in lines[1:-1] if name == table)[column] = value

    assert f"{table}.{column} has no valid value" in refused(tmp_path, rewritten(file, change))


@pytest.mark.postgres
def test_invalid_values_never_reach_postgresql(
    tmp_path: Path, file: Path, postgresql: Server, reused: str
) -> None:
    """It would accept some of them, and refuse others with its own errors."""

    def text(lines: list[Any]) -> None:
        next(row for name, row in lines[1:-1] if name == "event")["message"] = "a\0b"

    def changed(table: str, column: str, value: object) -> Callable[[list[Any]], None]:
        def change(lines: list[Any]) -> None:
            next(row for name, row in lines[1:-1] if name == table)[column] = value

        return change

    with Store.open(tmp_path / "ours", postgresql.url(reused)) as ours:
        before = ours.campaigns()
        for change in (text, *(changed(*each) for each in WRONG)):
            with pytest.raises(SpecError):
                import_campaign(ours, rewritten(file, change))
        assert ours.campaigns() == before
        assert import_campaign(ours, file)


def test_a_file_that_would_fill_memory_or_disk_is_refused(
    tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tuner.store.archive._LARGEST_BYTES", 1 << 20)
    bomb = tmp_path / "bomb.gz"
    bomb.write_bytes(gzip.compress(json.dumps({"kind": "x" * (8 << 20)}).encode()))
    assert "too large for a campaign" in refused(tmp_path, bomb)


Write = Callable[[Path], object]


def test_an_export_follows_no_planted_link(tmp_path: Path) -> None:
    """In a directory where others can write too, as the name of the file is known in advance."""
    target = tmp_path / "shadow"
    target.write_text("root's")
    file = tmp_path / "campaign.gz"
    (tmp_path / ".campaign.gz.part").symlink_to(target)
    with Store.open(tmp_path / "ours") as store:
        export_campaign(store, filled(store), file)
    assert target.read_text() == "root's"
    assert (tmp_path / ".campaign.gz.part").is_symlink()
    assert stat.S_ISREG(file.lstat().st_mode)
    assert gzip.decompress(file.read_bytes())
