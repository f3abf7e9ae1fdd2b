"""A node of a cell in which the process that changes it is killed."""

from __future__ import annotations

import os
import signal

import pytest

from deploy.cell import Cell
from deploy.cell.node import SHARED
from tests.waiting import wait_for
from tuner.errors import TestbedError
from tuner.hosts.node import SerialNode

pytestmark = pytest.mark.cell

MARK = f"{SHARED}/change-under-way"


def begin_and_be_killed(node: SerialNode, seconds: int) -> None:
    """Begin a change that takes so long, in a process that is killed before it ends."""
    pid = os.fork()
    if pid == 0:
        node.change(["sh", "-c", 'touch "$1"; sleep "$2"; rm "$1"', "slow", MARK, str(seconds)])
        os._exit(0)
    wait_for(lambda: node.ask(["test", "-e", MARK]).status == 0, "the change")
    os.kill(pid, signal.SIGKILL)
    assert os.waitpid(pid, 0)[1] == signal.SIGKILL
    assert node.ask(["test", "-e", MARK]).status == 0


def test_a_change_waits_for_one_that_a_killed_process_began(cell: Cell) -> None:
    node = SerialNode(cell.clients[0], SHARED)
    begin_and_be_killed(node, 2)
    assert node.change(["test", "-e", MARK]).status == 1


def test_a_change_that_does_not_end_is_named(cell: Cell) -> None:
    node = SerialNode(cell.clients[0], SHARED)
    begin_and_be_killed(node, 8)
    with pytest.raises(TestbedError, match="client1: another change is still under way there"):
        node.change(["true"], timeout_s=2.0)
    assert node.change(["test", "-e", MARK]).status == 1


def test_a_change_keeps_its_input_output_and_status(cell: Cell) -> None:
    node = SerialNode(cell.clients[0], SHARED)
    argv = ["sh", "-c", "cat; echo problem >&2; exit 7"]
    result = node.change(argv, input=b"text")
    assert (result.status, result.stdout, result.stderr) == (7, "text", "problem\n")
    assert list(result.argv) == argv


def test_a_daemon_that_a_change_starts_does_not_keep_others_waiting(cell: Cell) -> None:
    node = SerialNode(cell.clients[0], SHARED)
    node.change(["sh", "-c", "sleep 5 9<&- > /dev/null 2>&1 &"])
    assert node.change(["true"], timeout_s=4.0).status == 0
