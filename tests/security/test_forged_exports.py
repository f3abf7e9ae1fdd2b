"""Attack: a forged export. Imported records are trusted by everything that reads them later."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from api.app import create_app
from tests.postgresql import Server
from tests.unit.api.conftest import fstune, measured
from tests.unit.conftest import postgresql, reused, template
from tests.unit.store.test_archive import filled, rewritten
from tuner.errors import SpecError
from tuner.hosts.hold import Hold
from tuner.hosts.lease import Owner
from tuner.hosts.local import LocalConnector
from tuner.measure.driver import ClientEngine
from tuner.measure.workload import load_workload
from tuner.settings import ServiceSettings
from tuner.store import Store
from tuner.store.archive import export_campaign, import_campaign

__all__ = ["measured", "postgresql", "reused", "template"]

UP = "x/../../.."


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("original")
    with Store.open(place / "theirs") as store:
        path = place / "campaign.gz"
        export_campaign(store, filled(store), path)
        return path


@pytest.fixture
def file(tmp_path: Path, original: Path) -> Path:
    return Path(shutil.copy(original, tmp_path))


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
    with pytest.raises(SpecError, match="ASCII letters, digits"):
        Hold.take(LocalConnector(), str(directory), Owner("x/../../../victim", "here"), 60.0)
    workload = load_workload("mixed-use")
    engine = ClientEngine(LocalConnector(), str(tmp_path), str(tmp_path), workload, "")
    for attack in (engine.remove, engine.end_runs, lambda run: engine.command("s", run, 1)):
        with pytest.raises(SpecError, match="ASCII letters, digits"):
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


def set_event(kind: str, data: dict[str, Any]) -> Callable[[list[Any]], None]:
    """Return a change that gives the last event this kind and these data."""

    def change(lines: list[Any]) -> None:
        events = [line[1] for line in lines[1:-1] if line[0] == "event"]
        events[-1].update(kind=kind, data=data)

    return change


WAITS = {
    "until": "2026-03-01T20:00:00+00:00",
    "host": "h",
    "machine": "m",
    "pid": 7,
    "start_ticks": 1,
}
VERIFIED = {"campaign": "20261121-171312-gj4m", "elsewhere": False, "outcome": "holds"}

#: Kinds of events with data that their readers accept, and one change that they do not.
DATA: list[tuple[str, dict[str, Any], str, Any]] = [
    ("campaign-waits", WAITS, "until", "soon"),
    ("campaign-waits", WAITS, "until", "2026-03-01T20:00:00"),
    ("campaign-waits", WAITS, "pid", "me"),
    ("campaign-waits", WAITS, "pid", 0),
    ("campaign-waits", WAITS, "pid", None),
    ("campaign-waits", WAITS, "start_ticks", 1.5),
    ("campaign-paused", {"until": WAITS["until"]}, "until", None),
    ("left-out", {"block": 1, "trial": 1}, "trial", "1"),
    ("left-out", {"block": 1, "trial": 1}, "block", -1),
    ("measured-again", {"block": 1, "trial": 1}, "block", 2**31),
    ("measured", {"block": 1, "trial": 1}, "trial", "1"),
    ("run-failed", {"block": 1, "trial": 1}, "trial", None),
    ("block-complete", {"block": 1}, "block", True),
    ("floor-chosen", {"floor": 0.2, "reason": "small"}, "floor", -1.0),
    ("floor-chosen", {"floor": 0.2, "reason": "small"}, "reason", 1),
    ("trial-promoted", {"trial": 1}, "trial", 2),
    ("verification", {"verifies": VERIFIED["campaign"], "request": None}, "verifies", "../x"),
    ("verification", {"verifies": VERIFIED["campaign"], "request": None}, "request", "1"),
    ("verify-requested", {"blocks": 5}, "blocks", "many"),
    ("verified", VERIFIED, "outcome", "odd"),
    ("verified", VERIFIED, "elsewhere", 0),
    ("verified", VERIFIED, "campaign", None),
    ("verified", {**VERIFIED, "ratio": 0.9}, "ratio", 0.0),
    ("verify-failed", {"request": 3}, "request", 0.5),
]


@pytest.mark.parametrize(("kind", "data", "name", "wrong"), DATA)
def test_data_that_decisions_read_are_checked(
    tmp_path: Path, file: Path, kind: str, data: dict[str, Any], name: str, wrong: Any
) -> None:
    bad = rewritten(file, set_event(kind, {**data, name: wrong}))
    assert f"data of event {kind!r} have no valid {name!r}" in refused(tmp_path, bad)
    with Store.open(tmp_path / "ours") as ours:
        assert import_campaign(ours, rewritten(file, set_event(kind, data)))


@pytest.mark.parametrize("name", ["host", "machine", "pid", "start_ticks"])
def test_a_process_that_waits_is_named_completely(tmp_path: Path, file: Path, name: str) -> None:
    part = {key: value for key, value in WAITS.items() if key != name}
    bad = rewritten(file, set_event("campaign-waits", part))
    assert f"have no valid {name!r}" in refused(tmp_path, bad)


@pytest.fixture
def with_path(measured: Path, tmp_path: Path) -> Callable[[Path], Path]:
    """Return a function that imports a finished campaign whose workload is a path, and returns the
    state directory.
    """

    def bring_in(workload: Path) -> Path:
        exported = tmp_path / "finished.gz"
        with Store.open(measured) as theirs:
            export_campaign(theirs, theirs.campaign("last").id, exported)

        def change(lines: list[Any]) -> None:
            spec = json.loads(lines[1][1]["spec"])
            spec["workload"]["name"] = str(workload)
            lines[1][1]["spec"] = json.dumps(spec)

        with Store.open(tmp_path / "ours") as ours:
            import_campaign(ours, rewritten(exported, change))
        return tmp_path / "ours"

    return bring_in


PAGES = ("/campaigns/last", "/campaigns/last/live", "/campaigns/last/compare")
ROUTES = ("drift", "verdicts", "effects", "noise", "recommendation", "report")


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_the_service_opens_no_path_and_still_shows_what_was_measured(
    with_path: Callable[[Path], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workload = tmp_path / "pipe"
    os.mkfifo(workload)
    directory = with_path(workload)
    paths = []
    real = os.stat

    def watch(path: Any, **options: Any) -> Any:
        if str(path) == str(workload):
            paths.append(path)
        return real(path, **options)

    monkeypatch.setattr(os, "stat", watch)
    settings = ServiceSettings(requests_per_s=1e6, burst=10**6)
    with TestClient(create_app(directory, settings), base_url="http://localhost") as client:
        answers = {path: client.get(path) for path in PAGES}
        answers |= {name: client.get(f"/v1/campaigns/last/{name}") for name in ROUTES}
    assert {path: answer.status_code for path, answer in answers.items()} == dict.fromkeys(
        answers, 200
    )
    assert len(answers["drift"].json()) > 10
    assert answers["verdicts"].json()
    assert answers["effects"].json()["parameters"]
    assert paths == []


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_command_waits_for_no_pipe(with_path: Callable[[Path], Path], tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    directory = with_path(tmp_path / "pipe")
    for command in ("show", "report", "recommend"):
        fstune(directory, command, "last")


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
