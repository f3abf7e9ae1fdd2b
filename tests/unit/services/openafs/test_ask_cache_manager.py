"""The program that asks a cache manager for its counters: which port it asks, and how long."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path
from typing import Any

import pytest

from tuner.services.openafs import ask_cache_manager
from tuner.services.openafs.ask_cache_manager import outputs, udp_port
from tuner.services.openafs.xstat import cache_manager_counters


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

    def recorded(*arguments: Any, **more: Any) -> int:
        children.append(spawn(*arguments, **more))
        return children[-1]

    monkeypatch.setattr(os, "posix_spawnp", recorded)
    monkeypatch.setattr(ask_cache_manager, "_TIMEOUT_S", 0.0)
    assert outputs([("sleep", "600"), ("sleep", "600")]) == [b"", b""]
    for child in children:
        with pytest.raises(ProcessLookupError):
            os.kill(child, 0)


def test_tools_run_at_once(tmp_path: Path) -> None:
    """One reads what the other writes to a pipe: each waits for the other to open it."""
    pipe, data = tmp_path / "pipe", tmp_path / "data"
    os.mkfifo(pipe)
    data.write_text("counters\n")
    assert outputs([("cat", str(pipe)), ("cp", str(data), str(pipe))]) == [b"counters\n", b""]


def test_a_tool_that_is_not_installed_prints_nothing() -> None:
    assert outputs([("no-such-tool",), ("echo", "counters")]) == [b"", b"counters\n"]


def test_a_usual_port_in_use_is_why_one_of_the_tools_has_no_answer(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A client in the kernel has that port, beside one in user space that has another."""
    monkeypatch.setattr(sys, "argv", ["ask_cache_manager.py", "echo", "7"])
    monkeypatch.setattr(ask_cache_manager, "udp_port", lambda process: int(process) - 6)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind(("127.0.0.1", 0))
        port = other.getsockname()[1]
        monkeypatch.setattr(ask_cache_manager, "_USUAL_PORT", port)
        ask_cache_manager.main()
    everything, _, xstat = capfd.readouterr().out.partition("=== xstat\n")
    assert everything.startswith("7\n=== rxdebug\n")
    assert xstat.startswith(f"UDP port {port} of 127.0.0.1, which xstat_cm_test needs: ")
    with pytest.raises(ValueError, match="which xstat_cm_test needs"):
        cache_manager_counters(xstat)
