"""One change of a node of a private cell waits for another. The commands really run, here."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from deploy.cell import Node
from deploy.cell.process import ProcessId
from tests.waiting import wait_for
from tuner.errors import TestbedError
from tuner.hosts.exchange import Answer
from tuner.hosts.node import SerialNode
from tuner.hosts.node_supervisor import NodeSupervisors


class Here(NodeSupervisors):
    """Runs the commands on this machine."""

    def run(self, argv: Sequence[str], input: bytes, timeout_s: float) -> Answer:
        result = subprocess.run(argv, input=input, capture_output=True, timeout=60.0, check=False)
        return Answer("exit", result.returncode, True, result.stdout, result.stderr)


@pytest.fixture
def node(tmp_path: Path) -> SerialNode:
    own = ProcessId.of(os.getpid())
    node = Node("client1", tmp_path / "cells" / "second" / "client1", own, own)
    node.shared.mkdir(parents=True)
    return SerialNode(node, Here(node), str(node.shared))


def test_the_process_that_keeps_others_from_changing_a_node_is_named(node: SerialNode) -> None:
    """It was started by a change that left it the lock."""
    daemon = int(node.change(["sh", "-c", "sleep 600 > /dev/null 2>&1 & echo $!"]).stdout)
    try:
        wait_for(lambda: Path(f"/proc/{daemon}/comm").read_text() == "sleep\n", "the daemon")
        end = "or end it: fstune cell exec --name second client1 kill PID"
        with pytest.raises(TestbedError, match=rf"there: {daemon} \(sleep\); wait for it; {end}$"):
            node.change(["true"], timeout_s=0.2)
    finally:
        os.kill(daemon, signal.SIGKILL)
    wait_for(lambda: not Path(f"/proc/{daemon}/fd/9").exists(), "its end")
    assert node.change(["true"]).status == 0


def test_a_command_that_fails_is_not_taken_for_a_node_in_use(node: SerialNode) -> None:
    result = node.change(["sh", "-c", "echo 'bos: busy' >&2; exit 9"])
    assert (result.status, result.stderr) == (9, "bos: busy\n")
