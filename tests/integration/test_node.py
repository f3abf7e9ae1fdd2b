"""A node of a cell whose commands are run by a supervisor in it, and what is killed meanwhile."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from deploy.cell import Cell, Node
from deploy.cell.node import SHARED
from tests.waiting import wait_for
from tuner import interruption
from tuner.errors import TestbedError, TransportError
from tuner.hosts.connector import CommandTimeout, OutputTooLarge
from tuner.hosts.exchange import AnswerReader
from tuner.hosts.node import SerialNode
from tuner.hosts.node_supervisor import NodeSupervisors
from tuner.stop_signals import stop_signals

pytestmark = pytest.mark.cell

MARK = f"{SHARED}/change-under-way"
MARKED = 'touch "$1"; sleep "$2"; rm "$1"'
LONG = ("sh", "-c", "sleep 987; true")
#: Wait, for a minute at most, until four of these run at once; then print the parent process.
FOUR_AT_ONCE = """
echo >> "$1"
for turn in $(seq 600); do [ "$(wc -l < "$1")" -lt 4 ] || break; sleep 0.1; done
echo $PPID
"""


@pytest.fixture
def node(cell: Cell) -> Iterator[SerialNode]:
    with closing(NodeSupervisors(cell.clients[0])) as supervisors:
        yield SerialNode(cell.clients[0], supervisors, SHARED)
    cell.clients[0].check(["rm", "--force", MARK])


def begin_and_be_killed(node: Node, argv: list[str]) -> None:
    """Begin a change, which touches MARK, in a process that is killed before it ends."""
    pid = os.fork()
    if pid == 0:
        SerialNode(node, NodeSupervisors(node), SHARED).change(argv)
        os._exit(0)
    wait_for(lambda: node.run(["test", "-e", MARK]).status == 0, "the change")
    os.kill(pid, signal.SIGKILL)
    assert os.waitpid(pid, 0)[1] == signal.SIGKILL


def leave_behind(node: Node, seconds: int) -> None:
    """Like ``begin_and_be_killed``, with a command that is not killed with the others."""
    begin_and_be_killed(node, ["setsid", "--wait", "sh", "-c", MARKED, "slow", MARK, str(seconds)])
    assert node.run(["test", "-e", MARK]).status == 0


def goes_on(node: Node, command: str) -> bool:
    return node.run(["pgrep", "--full", command]).status == 0


def test_a_command_ends_with_the_process_that_requested_it(node: SerialNode) -> None:
    begin_and_be_killed(node.node, ["sh", "-c", MARKED, "slow", MARK, "123"])
    wait_for(lambda: not goes_on(node.node, "sleep 123"), "the end of the change")
    assert node.change(["test", "-e", MARK]).status == 0


def test_a_change_waits_for_what_a_killed_process_left_behind(node: SerialNode) -> None:
    leave_behind(node.node, 6)
    assert node.change(["test", "-e", MARK]).status == 1


def test_a_change_that_does_not_end_is_named(node: SerialNode) -> None:
    leave_behind(node.node, 15)
    with pytest.raises(TestbedError, match="client1: another change is still under way there"):
        node.change(["true"], timeout_s=10.0)
    assert node.change(["test", "-e", MARK]).status == 1


def test_a_change_keeps_its_input_output_and_status(node: SerialNode) -> None:
    argv = ["sh", "-c", "cat; echo problem >&2; exit 7"]
    result = node.change(argv, input=b"text")
    assert (result.status, result.stdout, result.stderr) == (7, "text", "problem\n")
    assert list(result.argv) == argv


def test_a_daemon_that_a_change_starts_does_not_keep_others_waiting(node: SerialNode) -> None:
    node.change(["sh", "-c", "sleep 5 9<&- > /dev/null 2>&1 &"])
    assert node.change(["true"], timeout_s=4.0).status == 0


def test_large_input_and_output_are_transferred_unchanged(node: SerialNode) -> None:
    content = bytes(range(256)) * 40_000
    assert node.complete(["cat"], content).stdout == content
    with pytest.raises(OutputTooLarge):
        node.ask(["cat", "/dev/zero"])
    with pytest.raises(OutputTooLarge, match="client1: cat /dev/zero: "):
        node.change(["cat", "/dev/zero"])
    assert node.ask(["cat"], input=b"more").stdout == "more"


def test_commands_have_the_environment_of_a_node(node: SerialNode) -> None:
    argv = ["sh", "-c", "pwd; hostname; id --user; echo $HOME $LC_ALL $PATH"]
    direct = node.node.check(argv)
    assert node.ask(argv).stdout == direct
    assert node.ask(["/nonexistent/program"]).status == 127
    with pytest.raises(ValueError, match="null character"):
        node.ask(["echo", "a\0b"])


def test_one_supervisor_runs_one_command_after_another(node: SerialNode) -> None:
    argv = ["sh", "-c", "echo $PPID"]
    first = node.ask(argv).stdout
    assert node.ask(argv).stdout == first
    together = ["sh", "-c", FOUR_AT_ONCE, "together", MARK]
    with ThreadPoolExecutor(4) as pool:
        several = set(pool.map(lambda _: node.ask(together, timeout_s=90.0).stdout, range(4)))
        assert len(several) == 4
        node.ask(["rm", MARK])
        again = set(pool.map(lambda _: node.ask(together, timeout_s=90.0).stdout, range(4)))
        assert again == several


def test_a_command_that_takes_too_long_is_killed(node: SerialNode) -> None:
    with pytest.raises(CommandTimeout, match="client1: sh -c: not finished after 1 s"):
        node.ask(LONG, timeout_s=1.0)
    wait_for(lambda: not goes_on(node.node, "sleep 987"), "its end")
    assert node.ask(["true"]).status == 0


def test_an_interrupted_command_is_killed(node: SerialNode) -> None:
    def interrupt() -> None:
        wait_for(lambda: goes_on(node.node, "sleep 987"), "the command")
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with stop_signals(), pytest.raises(KeyboardInterrupt):
        node.ask(LONG)
    interruption.forget()
    wait_for(lambda: not goes_on(node.node, "sleep 987"), "its end")
    assert node.ask(["true"]).status == 0


def test_a_supervisor_that_is_killed_is_replaced(node: SerialNode) -> None:
    idle = node.ask(["sh", "-c", "echo $PPID"]).stdout.strip()
    node.node.check(["kill", "-KILL", idle])
    wait_for(lambda: node.node.run(["test", "-e", f"/proc/{idle}"]).status == 1, "its end")
    assert node.ask(["true"]).status == 0
    with pytest.raises(TransportError, match="client1: sh -c: the supervisor in the node was kill"):
        node.ask(["sh", "-c", "kill -KILL $PPID; sleep 1"])
    assert node.ask(["true"]).status == 0


def test_why_a_supervisor_does_not_start_is_reported(
    node: SerialNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = ["python3", "-c", "import sys; sys.exit('no module named select')"]
    monkeypatch.setattr("tuner.hosts.node_supervisor.BOOTSTRAP", broken)
    with pytest.raises(TransportError, match=r"client1: true: .*: no module named select"):
        node.ask(["true"])


def test_an_answer_that_nobody_reads_does_not_keep_a_supervisor_from_ending(
    node: SerialNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(reader: AnswerReader, data: bytes) -> None:
        raise KeyboardInterrupt

    killpg, kills = os.killpg, list[int]()

    def kill(group: int, signal: int) -> None:
        kills.append(group)
        killpg(group, signal)

    monkeypatch.setattr("tuner.hosts.node_supervisor._EXIT_S", 60.0)
    monkeypatch.setattr(AnswerReader, "feed", interrupt)
    monkeypatch.setattr(os, "killpg", kill)
    with pytest.raises(KeyboardInterrupt):
        node.ask(["head", "-c", "9000000", "/dev/zero"])
    assert kills == []


def test_supervisors_end_when_they_are_closed(cell: Cell) -> None:
    with closing(NodeSupervisors(cell.server)) as supervisors:
        node = SerialNode(cell.server, supervisors, SHARED)
        pid = node.ask(["sh", "-c", "echo $PPID"]).stdout.strip()
    assert cell.server.run(["test", "-e", f"/proc/{pid}"]).status == 1
