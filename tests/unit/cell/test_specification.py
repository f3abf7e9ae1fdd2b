"""Names, specifications, damaged records and processes of cells."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from deploy.cell import CellError, Cells, CellSpec
from deploy.cell.node import Node, run_to_end
from deploy.cell.process import ProcessId


@pytest.mark.parametrize("name", ["a", "default", "a-b", "9", "x" * 32])
def test_good_names(name: str) -> None:
    assert CellSpec(name).name == name


@pytest.mark.parametrize(
    "name", ["", "A", "-a", "a-", "a b", "a/b", "..", "../x", "a.b", "a\n", "ä", "x" * 33, "a_b"]
)
def test_bad_names(name: str, tmp_path: Path) -> None:
    with pytest.raises(CellError, match="cell name"):
        CellSpec(name)
    with pytest.raises(CellError, match="cell name"):
        Cells(tmp_path).load(name)


@pytest.mark.parametrize("link", ["1gbit", "100mbit", "999999kbit"])
def test_good_links(link: str) -> None:
    assert CellSpec(link=link).link == link


@pytest.mark.parametrize(
    "link", ["", "0mbit", "1", "gbit", "1 gbit", "-1gbit", "1.5gbit", "1GBIT", "1gbit\n", "1gbps"]
)
def test_bad_links(link: str) -> None:
    with pytest.raises(CellError, match="write a rate such as"):
        CellSpec(link=link)


@pytest.mark.parametrize("clients", [0, -1, 201])
def test_bad_numbers_of_clients(clients: int) -> None:
    with pytest.raises(CellError, match="not between 1 and 200"):
        CellSpec(clients=clients)


@pytest.mark.parametrize("path", ["/a:b", "/a,b", "/a\\b"])
def test_a_directory_that_a_mount_option_cannot_name(path: str) -> None:
    with pytest.raises(CellError, match="must not contain"):
        Cells(Path(path))


def test_a_state_directory_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "state").touch()
    with pytest.raises(CellError, match=r"state: cannot be written \(File exists\); name"):
        Cells(tmp_path / "state").up(CellSpec())


def test_nothing_there(tmp_path: Path) -> None:
    assert Cells(tmp_path).names() == []
    assert Cells(tmp_path).load("a") is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "record",
    [
        *("", "{", "[]", "7", "null", "{}"),
        '{"spec": {"name": "A"}, "nodes": [], "ready": true}',
        '{"spec": {"name": "a"}, "nodes": [{"name": "server"}], "ready": true}',
    ],
)
def test_a_damaged_record_is_one_line_that_says_what_to_do(tmp_path: Path, record: str) -> None:
    directory = tmp_path / "cells" / "a"
    directory.mkdir(parents=True)
    (directory / "cell.json").write_text(record)
    with pytest.raises(CellError, match=r"cell\.json is damaged .*; take the cell down$") as caught:
        Cells(tmp_path).load("a")
    assert "\n" not in str(caught.value)


def test_users_other_than_root_are_told_to_use_sudo(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    for act in (lambda: Cells(tmp_path).up(CellSpec()), lambda: Cells(tmp_path).down("default")):
        with pytest.raises(CellError, match=r"needs root .*sudo"):
            act()


def test_a_process_is_distinguished_from_another_with_its_pid() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    identity = ProcessId.of(child.pid)
    assert identity.is_alive()
    for other in (
        ProcessId(identity.pid, identity.start_ticks + 1, identity.boot_id),
        ProcessId(identity.pid, identity.start_ticks, "another boot"),
    ):
        assert not other.is_alive()
        assert other.kill()
    assert child.poll() is None
    assert identity.kill()
    assert not identity.is_alive()
    with pytest.raises(ProcessLookupError):
        ProcessId.of(identity.pid)
    assert child.stdin is not None
    child.stdin.close()
    child.wait()


@pytest.mark.slow
def test_a_command_that_takes_too_long_ends_with_all_its_children() -> None:
    script = (
        "import subprocess, sys; "
        "subprocess.run([sys.executable, '-c', 'import time; time.sleep(60)'])"
    )
    with pytest.raises(TimeoutError, match=r"not finished after 0\.5 s"):
        run_to_end([sys.executable, "-c", script], None, 0.5, {})


class _Here(Node):
    """A node that is this machine."""

    def enter(self, argv: Sequence[str]) -> list[str]:
        return list(argv)


@pytest.mark.slow
def test_a_node_that_is_too_slow_is_a_failure_of_the_cell(tmp_path: Path) -> None:
    own = ProcessId.of(os.getpid())
    with pytest.raises(CellError, match=r"^n: sleep 60: not finished after 0\.2 s$") as failed:
        _Here("n", tmp_path, own, own).check(["sleep", "60"], timeout_s=0.2)
    assert isinstance(failed.value, TimeoutError)


def test_a_daemon_that_keeps_the_output_open_does_not_block() -> None:
    script = "import os, time; print('up', flush=True); os.fork() or time.sleep(5)"
    done = run_to_end([sys.executable, "-c", script], None, 30.0, {})
    assert (done.status, done.stdout) == (0, b"up\n")


@pytest.mark.slow
def test_commands_run_where_pidfds_are_not_available(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def forbidden(pid: int) -> int:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(os, "pidfd_open", forbidden)
    assert run_to_end(["sh", "-c", "exit 3"], None, 30.0, os.environ).status == 3
    with pytest.raises(TimeoutError, match=r"not finished after 0\.2 s"):
        run_to_end(["sleep", "60"], None, 0.2, os.environ)
