"""The processes of a node, seen from this machine: nothing runs in the node to list them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from deploy.cell import Node


def inside(node: Node, path: str) -> Path:
    """Return the path by which this machine sees an absolute path of a node."""
    return Path(f"/proc/{node.init.pid}/root{path}")


def processes(node: Node) -> list[list[str]]:
    """Return the command lines of all processes of a node."""
    return list(_command_lines(node))


def command_line(node: Node, program: str) -> tuple[str, ...]:
    """Return the command line of the process that runs a program, empty if there is none."""
    for words in _command_lines(node):
        if words[0].rpartition("/")[2] == program:
            return tuple(words)
    return ()


def engine_runs(node: Node) -> bool:
    """Whether the engine is running."""
    return any(
        "run" in words and any("workloads.pyz" in word for word in words)
        for words in _command_lines(node)
    )


def runs_with(node: Node, program: str, *options: str) -> bool:
    """Whether a program runs with these options."""
    return any(
        words[0].endswith(program) and {*options} <= {*words} for words in _command_lines(node)
    )


def _command_lines(node: Node) -> Iterator[list[str]]:
    numbers = [int(path.name) for path in inside(node, "/proc").glob("[0-9]*")]
    for number in sorted(numbers):
        try:
            line = (inside(node, "/proc") / str(number) / "cmdline").read_bytes()
        except OSError:
            continue  # it has exited
        if line:
            yield line.decode(errors="replace").rstrip("\0").split("\0")
