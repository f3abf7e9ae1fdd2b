"""Nodes of private cells as hosts of a testbed file, and as a way to other hosts."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from deploy.cell import Cells, Node
from deploy.cell.ssh import connect_from
from tuner.errors import TestbedError
from tuner.hosts.link import OpenSocket
from tuner.services.openafs.cell import translate_errors
from tuner.services.openafs.file import NetnsSection


def node(state_directory: Path, section: NetnsSection) -> Node:
    """A node that is up. Raises TestbedError when it is not."""
    with translate_errors():
        cell = Cells(state_directory).load(section.cell)
    nodes = {} if cell is None else {one.name: one for one in cell.nodes}
    if section.node not in nodes:
        raise TestbedError(
            f"no node {section.node!r} of a private cell {section.cell!r} is up; see 'fstune cell'"
        )
    return nodes[section.node]


def from_node(state_directory: Path, section: NetnsSection) -> OpenSocket:
    """Connections from the network of a node: the one that is up when a connection is made."""

    def connect(address: str, port: int, timeout_s: float) -> socket.socket:
        return connect_from(node(state_directory, section), address, port, timeout_s)

    return connect


@contextmanager
def keep_up(state_directory: Path, cells: Sequence[str]) -> Iterator[None]:
    """Let nobody take these cells down meanwhile. Each host in them has a lock of its own,
    so several may use them in this way. Raises TestbedError for one that a campaign has for itself.
    """
    with translate_errors(), ExitStack() as stack:
        for name in cells:
            stack.enter_context(Cells(state_directory).use(name, shared=True))
        yield
