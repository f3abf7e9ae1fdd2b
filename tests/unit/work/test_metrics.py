"""The metrics of a worker, and who asks for them."""

from __future__ import annotations

import socket
import threading
from contextlib import ExitStack, closing
from urllib.request import urlopen

import pytest

from tests.ports import free_port
from tests.waiting import wait_for
from tuner.work import metrics
from tuner.work.metrics import WorkerMetrics


def test_idle_connections_take_few_files_and_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any user of the machine can open them."""
    monkeypatch.setattr(metrics._Handler, "timeout", 1.0)
    port = free_port()
    before = threading.active_count()
    end = WorkerMetrics(2).serve(f"127.0.0.1:{port}")
    try:
        with ExitStack() as stack:
            idle = [
                stack.enter_context(closing(socket.create_connection(("127.0.0.1", port), 60.0)))
                for _ in range(60)
            ]
            assert all(one.recv(1) == b"" for one in idle)
        wait_for(lambda: threading.active_count() == before + 1, "the end of all connections")
        with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
            assert "fstune_worker_concurrency 2.0" in answer.read().decode()
    finally:
        end()


def test_no_more_connections_than_allowed_are_served() -> None:
    port = free_port()
    end = WorkerMetrics(2).serve(f"127.0.0.1:{port}")
    before = threading.active_count()
    try:
        with ExitStack() as stack:
            for _ in range(60):
                one = stack.enter_context(
                    closing(socket.create_connection(("127.0.0.1", port), 60.0))
                )
            assert one.recv(1) == b""  # at once, although others are idle
            assert threading.active_count() <= before + metrics._MOST_CONNECTIONS
    finally:
        end()
