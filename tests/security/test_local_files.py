"""Attack: a local user has created files in a well-known place before fstune does, or replaces them
while fstune works there.
"""

from __future__ import annotations

import errno
import importlib
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from deploy.cell import CellError, Cells, CellSpec
from deploy.cell.node import processes_below
from tests.unit.hosts.test_supervisor import attend
from tuner.errors import StoreError, TestbedError
from tuner.hosts import supervisor
from tuner.hosts.hold import Hold
from tuner.hosts.lease import Owner
from tuner.hosts.local import LocalConnector
from tuner.hosts.restore_all import restore_all
from tuner.new_file import new_file, prepared_files, put_in_place
from tuner.store import Store, backup
from workloads import rundir, zipapp
from workloads.confinement import confine
from workloads.failure import WorkloadFailure

ROOT = os.geteuid() == 0
OTHER = 1234
as_root = pytest.mark.skipif(not ROOT, reason="only root can create another user's files")


def take(directory: Path) -> Hold:
    return Hold.take(LocalConnector(), str(directory), Owner("campaign-1", "here"), 60.0)


@as_root
@pytest.mark.parametrize("whose", ["itself", "above", "sticky-above"])
def test_a_restore_directory_of_another_user_is_refused(tmp_path: Path, whose: str) -> None:
    directory = tmp_path / "above" / "restore-here"
    directory.mkdir(parents=True, mode=0o700)
    match whose:
        case "itself":
            os.chown(directory, OTHER, OTHER)
        case "above":
            directory.parent.chmod(0o777)
        case "sticky-above":
            os.chown(directory.parent, OTHER, OTHER)
    with pytest.raises(TestbedError, match="must be a private directory"):
        take(directory)
    assert list(directory.iterdir()) == []
    proof = tmp_path / "proof"
    journal = directory / "restore" / "part"
    journal.mkdir(parents=True)
    (journal / "restore.sh").write_text(f"touch {proof}; echo done\n")
    with pytest.raises(TestbedError, match="must be a private directory"):
        restore_all(LocalConnector(), str(directory))
    assert not proof.exists()


@pytest.mark.parametrize(
    "how", ["writable", "link", "journal-writable", "script-writable", "linked"]
)
def test_a_script_that_others_can_write_is_not_run(tmp_path: Path, how: str) -> None:
    directory = tmp_path / "restore-here"
    proof = tmp_path / "proof"
    journal = directory / "restore" / "part"
    journal.mkdir(parents=True, mode=0o700)
    script = journal / "restore.sh"
    script.write_text(f"touch {proof}; echo done\n")
    target = directory
    match how:
        case "writable":
            directory.chmod(0o777)
        case "link":
            target = tmp_path / "link"
            target.symlink_to(directory)
        case "journal-writable":
            journal.chmod(0o770)
        case "script-writable":
            script.chmod(0o666)
        case "linked":
            real = tmp_path / "elsewhere"
            journal.rename(real)
            journal.symlink_to(real)
    with pytest.raises(TestbedError, match=r"private directory|not ours alone"):
        restore_all(LocalConnector(), str(target))
    assert not proof.exists()


def test_a_directory_that_vanishes_is_not_ours(tmp_path: Path) -> None:
    """Anybody can make and remove directories below /var/tmp at any moment."""
    assert not supervisor._own(str(tmp_path / "vanished"))


@pytest.mark.parametrize("planted", ["directory", "file", "link", "writable"])
def test_a_planted_directory_does_not_stop_detached_runs(tmp_path: Path, planted: str) -> None:
    """Detached commands are stored in a directory below /var/tmp with a well-known name."""
    place = tmp_path / f"runs-{os.geteuid()}"
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    match planted:
        case "directory" if ROOT:
            place.mkdir(mode=0o700)
            os.chown(place, OTHER, OTHER)
        case "file":
            place.write_text("")
        case "link":
            place.symlink_to(elsewhere)
        case _:
            place.mkdir()
            place.chmod(0o777)
    first = attend(tmp_path, "sh", "-c", "date +%s.%N")
    assert first.ended == "exit"
    again = attend(tmp_path, "sh", "-c", "date +%s.%N", known=True)
    assert again.stdout == first.stdout  # the same run, found again
    assert list(elsewhere.iterdir()) == []
    assert not place.is_dir() or list(place.iterdir()) == []
    assert attend(tmp_path, "true", do="forget").ended == "forgotten"
    assert attend(tmp_path, "true", known=True).ended == "unknown"


def test_locks_and_databases_are_private(tmp_path: Path) -> None:
    """Anyone who can open a lock can hold it forever, and readers can lock a database."""
    state = tmp_path / "state"
    before = os.umask(0o022)
    try:
        with pytest.raises(CellError), Cells(state).use("try"):
            raise CellError("seen")
        with Store.open(state) as store:
            assert store.campaigns() == []
            modes = {path.name: path.stat().st_mode & 0o077 for path in state.rglob("*")}
    finally:
        os.umask(before)
    assert state.stat().st_mode & 0o077 == 0
    assert {"locks", "cell-try.use", "fstune.sqlite3"} <= modes.keys()
    assert set(modes.values()) == {0}


def test_permissions_left_open_by_an_earlier_release_are_fixed(tmp_path: Path) -> None:
    state = tmp_path / "state"
    (state / "locks").mkdir(parents=True)
    (state / "locks" / "cell-try.use").touch(0o666)
    (state / "fstune.sqlite3").touch(0o644)
    state.chmod(0o755)
    with Cells(state).use("try"), Store.open(state):
        modes = {path.name: path.stat().st_mode & 0o077 for path in state.rglob("*")}
    assert set(modes.values()) == {0}


def test_a_restore_directory_left_open_by_its_administrator_is_closed(tmp_path: Path) -> None:
    """Anyone who can open it can lock it: the host could be neither changed nor restored."""
    directory = tmp_path / "restore-here"
    directory.mkdir()
    directory.chmod(0o755)
    hold = take(directory)
    assert directory.stat().st_mode & 0o777 == 0o700
    assert hold.give_back() is None


VICTIM = b"root:secret\n" * 10
WRITING = ("rewrite", "append", "truncate", "chmod", "read-modify-write", "rename", "unlink")


def run_as_other(code: str) -> None:
    become = f"import os; os.setgroups([]); os.setgid({OTHER}); os.setuid({OTHER}); "
    subprocess.run([sys.executable, "-I", "-c", become + code], check=True, timeout=60)


def swap(path: Path, target: Path) -> None:
    """As another user, put a link to ``target`` in the place of ``path``."""
    where, old = str(path), f"{path}.old"
    run_as_other(f"os.rename({where!r}, {old!r}); os.symlink({str(target)!r}, {where!r})")


@pytest.fixture
def outside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory of root's with a file that has the name of the first one of a workload."""
    directory = tmp_path_factory.mktemp("outside")
    (directory / "f0000000").write_bytes(VICTIM)
    (directory / "f0000000").chmod(0o600)
    return directory


@pytest.fixture
def reachable() -> Iterator[Path]:
    """A directory that other users can reach, as they cannot those below ``tmp_path``."""
    with tempfile.TemporaryDirectory() as above:
        Path(above).chmod(0o755)
        directory = Path(above, "reachable")
        directory.mkdir()
        yield directory


@pytest.fixture
def volume(reachable: Path) -> Path:
    """A directory where other users may write, as its access control list says in AFS."""
    reachable.chmod(0o777)
    return reachable


def engine(place: Path, operation: str) -> list[str]:
    """The command that runs a workload whose last phase is ``operation``, from a zipapp."""
    spec = {
        "name": "one",
        "description": "one operation",
        "processes": 2,
        "wall_clock_limit_s": 60,
        "filesets": {"a": {"files": 2, "size": {"distribution": "fixed", "bytes": 100}}},
        "stages": [
            {
                "name": "only",
                "cache": "as-is",
                "phases": [
                    {"operation": "mkdir", "fileset": "a"},
                    {"operation": "create", "fileset": "a"},
                    {"operation": operation, "fileset": "a", "component": "c"},
                ],
            }
        ],
        "weights": {"c": 1.0},
    }
    (place / "spec.json").write_text(json.dumps(spec))
    program = str(zipapp.build(place / "workloads.pyz").path)
    return [sys.executable, "-I", "-S", program, "run", str(place / "spec.json")]


@as_root
@pytest.mark.parametrize("what", ["file", "directory"])
@pytest.mark.parametrize("operation", WRITING)
def test_a_workload_does_not_follow_links_out_of_its_directory(
    tmp_path: Path, volume: Path, outside: Path, operation: str, what: str
) -> None:
    """The link is made when the workload is running already, just before it is used."""
    command = [*engine(tmp_path, operation), "--dir", str(volume), "--run-id", "one"]
    running = subprocess.Popen(
        [*command, "--seed", "1", "--gate", "phase"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert running.stdin
    assert running.stderr
    directory = volume / "fstune-one" / "a.d00000"
    try:
        for phase in range(3):
            assert running.stderr.readline() == f"ready only {phase}\n"
            if phase == 2:
                for path in (directory, directory.parent):
                    path.chmod(0o777)
                if what == "file":
                    swap(directory / "f0000000", outside / "f0000000")
                else:
                    swap(directory, outside)
            running.stdin.write("\n")
            running.stdin.flush()
        output, _ = running.communicate(timeout=60)
    finally:
        running.kill()
        running.wait()
    victim = outside / "f0000000"
    assert victim.read_bytes() == VICTIM
    assert victim.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in outside.iterdir()] == ["f0000000"]
    error = json.loads(output).get("error")
    if error:
        assert error["path"].startswith(str(directory.parent))
    rundir.remove(str(directory.parent), "one")
    assert list(volume.iterdir()) == []


def in_child(act: Callable[[], object]) -> str:
    """Return the representation of what ``act`` returns or raises in a process of its own."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            answer = repr(act())
        except BaseException as error:
            answer = repr(error)
        os.write(writing, answer.encode())
        os._exit(0)
    os.close(writing)
    with open(reading, encoding="utf-8") as stream:
        text = stream.read()
    os.waitpid(pid, 0)
    return text


@as_root
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_confined_process_reaches_nothing_above(tmp_path: Path) -> None:
    """Not even from a directory that is moved out of its root while it is looked up."""
    inside = tmp_path / "run" / "below"
    inside.mkdir(parents=True)
    (tmp_path / "run" / "planted.py").write_text("")

    def act() -> object:
        above = os.open(tmp_path, os.O_RDONLY)
        confine(os.open("run", os.O_RDONLY, dir_fd=above), "run")
        sys.path.insert(0, "/")
        with pytest.raises(ImportError):
            importlib.import_module("planted")
        os.chdir("below")
        os.rename("run/below", "moved", src_dir_fd=above, dst_dir_fd=above)
        return os.listdir("..")

    assert in_child(act).startswith("FileNotFoundError")
    assert (tmp_path / "moved").is_dir()


@pytest.mark.timeout(20)
@pytest.mark.parametrize("marker", ["pipe", "link"])
def test_a_marker_that_is_not_a_file_is_not_read(tmp_path: Path, marker: str) -> None:
    root = tmp_path / "fstune-one"
    root.mkdir()
    if marker == "pipe":
        os.mkfifo(root / rundir.MARKER)
    else:
        (tmp_path / "marker").write_text('{"made_by": "fstune-workloads", "run_id": "one"}')
        (root / rundir.MARKER).symlink_to(tmp_path / "marker")
    with pytest.raises(WorkloadFailure):
        rundir.remove(str(root), "one")
    assert root.exists()


def test_a_run_directory_that_is_replaced_is_not_emptied(
    tmp_path: Path, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is replaced by a link after its marker was checked, just before it is listed."""
    root = rundir.path_of(str(tmp_path), "one")
    rundir.create(root, {"run_id": "one"}, 0, 0)
    Path(root, "mail").touch()
    scandir = os.scandir

    def late(path: int | str) -> object:
        if not os.path.islink(root):
            os.rename(root, tmp_path / "old")
            os.symlink(outside, root)
        return scandir(path)

    monkeypatch.setattr("os.scandir", late)
    with pytest.raises(WorkloadFailure, match="is not a directory"):
        rundir.remove(root, "one")
    monkeypatch.undo()
    assert (outside / "f0000000").read_bytes() == VICTIM
    assert os.listdir(tmp_path / "old") == [rundir.MARKER]


def test_a_run_directory_is_not_made_through_a_link(
    tmp_path: Path, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = rundir.path_of(str(tmp_path), "one")
    mkdir = os.mkdir

    def swapping(path: str, mode: int, **options: int) -> None:
        mkdir(path, mode, **options)
        os.rename(tmp_path / ".fstune-one", tmp_path / "old")
        os.symlink(outside, tmp_path / ".fstune-one")

    monkeypatch.setattr("os.mkdir", swapping)
    with pytest.raises(WorkloadFailure, match="Not a directory"):
        rundir.create(root, {"run_id": "one"}, 0, 0)
    assert os.listdir(outside) == ["f0000000"]


@as_root
def test_a_state_directory_of_another_user_is_not_used_for_cells(tmp_path: Path) -> None:
    """The programs that root would run there could be anything."""
    state = tmp_path / "state"
    state.mkdir()
    os.chown(state, OTHER, OTHER)
    with pytest.raises(CellError, match=f"belongs to the user with the ID {OTHER}, .*; name"):
        Cells(state).up(CellSpec(name="try"))
    assert [path.name for path in state.iterdir()] == ["locks"]
    assert not Cells(state).down("try")  # one that was made there before can be taken down


def test_a_process_with_any_arguments_does_not_stop_the_search_for_nodes(tmp_path: Path) -> None:
    nested = "[" * 100_000  # more than a JSON parser takes
    argv = [sys.executable, "-c", "print(flush=True); input()", "node_init.py", nested]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()  # its command line is visible now
            assert processes_below(tmp_path) == []
        finally:
            process.kill()


@pytest.fixture
def theirs(reachable: Path) -> Path:
    """A directory of another user, whose files get that user's group."""
    os.chown(reachable, OTHER, OTHER)
    reachable.chmod(0o2755)
    return reachable


@as_root
def test_a_new_file_is_never_a_copy_of_another(
    theirs: Path, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other user removes what is written, and makes a link to root's file when a hard link is
    refused, as it is between file systems and for a directory.
    """
    (outside / "f0000000").chmod(0o640)

    def refused(*_: object, **__: object) -> None:
        (part,) = theirs.glob(".report.*")
        swap(part, outside / "f0000000")
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr("os.link", refused)
    with new_file(theirs / "report") as output:
        output.write(b"the report")
    assert (theirs / "report").read_bytes() == b"the report"


@as_root
def test_a_new_file_is_what_was_written_to_it(theirs: Path, outside: Path) -> None:
    """Also where a directory has taken its name, which is the other user's to remove."""
    with new_file(theirs / "report") as output:
        output.write(b"the report")
        (part,) = theirs.glob(".report.*")
        where = str(part)
        run_as_other(f"os.rename({where!r}, {where + '.old'!r}); os.mkdir({where!r})")
    assert not (theirs / "report").is_symlink()
    assert (theirs / "report").read_bytes() == b"the report"


@as_root
@pytest.mark.parametrize("link", ["file", "directory"])
def test_prepared_files_are_not_written_through_links(
    theirs: Path, outside: Path, monkeypatch: pytest.MonkeyPatch, link: str
) -> None:
    """Another user replaces the temporary directory as soon as it was made."""
    mkdtemp = tempfile.mkdtemp
    victim = outside / ("f0000000" if link == "file" else "new")

    def swapping(**options: Any) -> str:
        place = str(mkdtemp(**options))
        if link == "directory":
            swap(Path(place), outside)
        else:
            planting = f"os.mkdir({place!r}); os.symlink({str(victim)!r}, {place + '/new'!r})"
            run_as_other(f"os.rename({place!r}, {place + '.old'!r}); {planting}")
        return place

    monkeypatch.setattr("tempfile.mkdtemp", swapping)
    with (
        pytest.raises(StoreError, match="cannot be written"),
        prepared_files({"new": "anything"}, theirs),
    ):
        pass
    assert [path.name for path in outside.iterdir()] == ["f0000000"]
    assert (outside / "f0000000").read_bytes() == VICTIM


@as_root
def test_prepared_files_are_not_taken_from_elsewhere(theirs: Path, outside: Path) -> None:
    with prepared_files({"f0000000": "anything"}, theirs) as place:
        swap(place, outside)
        with pytest.raises(StoreError, match="cannot be written"):
            put_in_place(place, {"f0000000": True}, theirs)
    assert (outside / "f0000000").read_bytes() == VICTIM


@as_root
def test_a_backup_goes_to_no_other_file(
    theirs: Path, outside: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another user replaces the file by a link just before SQLite opens it."""
    state = tmp_path / "state"
    Store.open(state).close()
    (outside / "f0000000").write_bytes(b"")
    connect = sqlite3.connect

    def swapping(path: Path, **options: Any) -> sqlite3.Connection:
        if (theirs / "copy").exists():
            swap(theirs / "copy", outside / "f0000000")
        connection: sqlite3.Connection = connect(path, **options)
        return connection

    monkeypatch.setattr("tuner.store.sqlite.sqlite3.connect", swapping)
    backup(state, theirs / "copy")
    monkeypatch.undo()
    assert (outside / "f0000000").read_bytes() == b""
    assert [path.name for path in theirs.iterdir()] == ["copy"]
    with closing(connect(theirs / "copy")) as copied:
        assert copied.execute("SELECT count(*) FROM campaign").fetchone() == (0,)
