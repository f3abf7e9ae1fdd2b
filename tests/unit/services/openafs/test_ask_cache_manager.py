"""The program that asks a cache manager for its counters: which port it asks, and how long."""

from __future__ import annotations

import os
import socket
from typing import Any

import pytest

from tuner.services.openafs import ask_cache_manager
from tuner.services.openafs.ask_cache_manager import run, udp_port


def test_the_port_is_that_of_the_process() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own:
        own.bind(("127.0.0.1", 0))
        assert udp_port(str(os.getpid())) == own.getsockname()[1]


def test_without_a_process_or_a_socket_there_is_no_port() -> None:
    """The cache manager is in the kernel, and uses the usual port."""
    assert udp_port("") is None
    assert udp_port("0") is None


def test_a_tool_that_hangs_is_killed_after_the_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    spawn = os.posix_spawnp
    children: list[int] = []

    def recorded(*arguments: Any) -> int:
        children.append(spawn(*arguments))
        return children[-1]

    monkeypatch.setattr(os, "posix_spawnp", recorded)
    monkeypatch.setattr(ask_cache_manager, "_TIMEOUT_S", 0.0)
    run(("sleep", "600"))
    with pytest.raises(ProcessLookupError):
        os.kill(children[0], 0)


def test_a_tool_that_ends_is_not_waited_for_any_longer(capfd: pytest.CaptureFixture[str]) -> None:
    run(("echo", "counters"))
    assert capfd.readouterr().out == "counters\n"
